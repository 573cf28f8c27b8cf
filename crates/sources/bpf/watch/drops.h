/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Counts of the packets of watched ports that this host drops, by the kernel's
 * reason. */
#ifndef LAGTRACE_WATCH_DROPS_H
#define LAGTRACE_WATCH_DROPS_H

/* The first value of `enum skb_drop_reason` that stands for a drop. */
#define FIRST_REASON 2

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

struct ports {
	__be16 source;
	__be16 dest;
};

/* Reads the addresses and ports of an arriving TCP packet from its headers. The
 * kernel may not have parsed them yet. */
static __always_inline bool ends_in(const struct sk_buff *skb, struct ends *ends)
{
	const unsigned char *network = skb->head + skb->network_header;
	struct ports ports;
	struct headers h;

	if (bpf_probe_read_kernel(&h, 40, network))
		return false;
	if (h.v4.version_ihl >> 4 == 4) {
		if (h.v4.protocol != IPPROTO_TCP)
			return false;
		ends->family = AF_INET;
		ends->local[0] = h.v4.dest;
		ends->remote[0] = h.v4.source;
		network += (h.v4.version_ihl & 15) * 4;
	} else {
		if (h.v6.next != IPPROTO_TCP)
			return false;
		ends->family = AF_INET6;
		__builtin_memcpy(ends->local, h.v6.dest, 16);
		__builtin_memcpy(ends->remote, h.v6.source, 16);
		network += 40;
	}
	if (bpf_probe_read_kernel(&ports, sizeof(ports), network))
		return false;
	ends->local_port = bpf_ntohs(ports.dest);
	ends->remote_port = bpf_ntohs(ports.source);
	return true;
}

#define is_reason(reason, name)                                                        \
	(bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_##name) &&   \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_##name))

/* Returns true if the socket had no memory for the segment (tcp_data_queue(),
 * tcp_add_backlog(), tcp_prune_ofo_queue()). */
static __always_inline bool is_for_want_of_memory(__u32 reason)
{
	return is_reason(reason, PROTO_MEM) || is_reason(reason, SOCKET_BACKLOG) ||
	       is_reason(reason, SOCKET_RCVBUFF) || is_reason(reason, TCP_OFO_QUEUE_PRUNE);
}

static __always_inline void note_refusal(const struct ends *ends)
{
	struct key key = {};
	__u64 now = bpf_ktime_get_ns();

	make_key(&key, 0, ends);
	bpf_map_update_elem(&refusals, &key, &now, BPF_ANY);
	has_refusals = 1;
}

/* The kernel drops a packet. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(kfree_skb, struct sk_buff *skb, void *location, __u32 reason)
{
	struct ends ends = {};
	__u64 one = 1, *seen;

	if (reason < FIRST_REASON || !config.port_count)
		return 0;
	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	if (!ends_in(skb, &ends))
		return 0;
	if (is_watched_port(ends.local_port)) {
		if (is_for_want_of_memory(reason))
			note_refusal(&ends);
	} else if (!is_watched_port(ends.remote_port)) {
		return 0;
	}
	seen = bpf_map_lookup_elem(&drops, &reason);
	if (seen)
		*seen += 1;
	else
		bpf_map_update_elem(&drops, &reason, &one, BPF_NOEXIST);
	return 0;
}

#endif
