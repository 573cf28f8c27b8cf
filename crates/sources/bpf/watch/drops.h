/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Packets of the watched ports that this host drops, by the kernel's reason. */
#ifndef LAGTRACE_WATCH_DROPS_H
#define LAGTRACE_WATCH_DROPS_H

/* `enum skb_drop_reason`: what is no drop, and the first that is. */
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

/* The ports of a TCP packet, as far as its headers are known by then. */
static __always_inline bool ports_of(const struct sk_buff *skb, struct ports *ports)
{
	const unsigned char *network = skb->head + skb->network_header;
	__u8 first, protocol;

	if (bpf_probe_read_kernel(&first, sizeof(first), network))
		return false;
	if (first >> 4 == 4) {
		if (bpf_probe_read_kernel(&protocol, sizeof(protocol), network + 9) || protocol != IPPROTO_TCP)
			return false;
		network += (first & 15) * 4;
	} else {
		if (bpf_probe_read_kernel(&protocol, sizeof(protocol), network + 6) || protocol != IPPROTO_TCP)
			return false;
		network += 40;
	}
	return !bpf_probe_read_kernel(ports, sizeof(*ports), network);
}

/* A packet is dropped. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(kfree_skb, struct sk_buff *skb, void *location, __u32 reason)
{
	struct ports ports = {};
	__u64 one = 1, *seen;

	if (reason < FIRST_REASON || !config.port_count)
		return 0;
	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	if (!ports_of(skb, &ports))
		return 0;
	if (!is_watched_port(bpf_ntohs(ports.dest)) && !is_watched_port(bpf_ntohs(ports.source)))
		return 0;
	seen = bpf_map_lookup_elem(&drops, &reason);
	if (seen)
		*seen += 1;
	else
		bpf_map_update_elem(&drops, &reason, &one, BPF_NOEXIST);
	return 0;
}

#endif
