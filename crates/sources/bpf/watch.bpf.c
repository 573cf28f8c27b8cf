// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Requests of live servers as the kernel sees them: when their bytes arrived,
 * were read, answered, held back and sent. Only stable tracepoints, with types
 * from the kernel's own description (BTF); nothing is changed.
 *
 * Every turn of every watched connection is timed here, in maps. Only turns
 * that took long, and everything of the connections in the sample, is handed
 * up.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel_types.h"
#include "watch.h"

#define AF_INET 2
#define AF_INET6 10
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define IPPROTO_TCP 6

#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_CLOSE 7
#define TCP_NEW_SYN_RECV 12

#define FLAG_SYN 0x02
#define FLAG_ACK 0x10

/* One frame that several devices see (a bond and its port, a bridge) is the
 * same frame: this long after it at most, in ns. */
#define COPY_WITHIN 1000000

const volatile struct watch_config config SEC(".rodata.config") = {};

struct key {
	__u64 net;
	__u64 local;
	__u64 remote;
	__u32 ports;
	__u32 family;
};

struct connection {
	struct ends ends;
	__u64 turn_arrived_at;
	__u64 arrived_last_at;
	__u64 read_at;
	__u64 read_last_at;
	__u64 written_at;
	__u64 written_last_at;
	__u64 sent_at;
	__u64 sent_last_at;
	__u64 held_since;
	__u64 held_longest;
	__u64 held;
	__u64 last_in_at;
	__u64 last_in_skb;
	__u64 last_out_at;
	__u64 last_out_skb;
	__u64 received_bytes;
	__u64 sent_bytes;
	__u32 last_in_seq;
	__u32 last_out_seq;
	__u32 held_seq;
	__u32 holds;
	__u32 holds_acked;
	__u32 writes;
	__u32 pid;
	__u32 tid;
	__u16 reads;
	__u8 nonagle;
	/* This end asks; whose turn it is says nothing then. */
	__u8 is_client;
	__u32 hash;
	__u32 namespace;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct key);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LATENCY_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watch_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watch_tally);
} tallies SEC(".maps");

/* From 6.12 on for tracepoints; without it a segment's payload is kept only
 * where it lies beside the headers. */
extern int bpf_dynptr_from_skb(struct sk_buff *skb, __u64 flags, struct bpf_dynptr *ptr) __ksym __weak;

static const struct connection blank = {};
static const __u32 zero = 0;

/* Adds one to what this processor has counted. */
#define count(what)                                                              \
	do {                                                                     \
		struct watch_tally *tally = bpf_map_lookup_elem(&tallies, &zero); \
		if (tally)                                                       \
			tally->what += 1;                                        \
	} while (0)

static __always_inline bool is_for_ports_alone(void)
{
	return config.port_count && !config.tgid && !config.cgroup;
}

static __always_inline bool is_watched_port(__u16 port)
{
	if (config.port_count == 0)
		return true;
	for (__u32 i = 0; i < MAX_PORTS; i++) {
		if (i >= config.port_count)
			break;
		if (config.ports[i] == port)
			return true;
	}
	return false;
}

static __always_inline bool is_watched_program(void)
{
	if (config.tgid && bpf_get_current_pid_tgid() >> 32 != config.tgid)
		return false;
	return !config.cgroup || bpf_get_current_cgroup_id() == config.cgroup;
}

static __always_inline __u64 fold(const __be32 *words)
{
	__u64 hash = words[0];

	for (int i = 1; i < 4; i++)
		hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15ull;
	return hash;
}

static __always_inline void make_key(struct key *key, __u64 net, const struct ends *ends)
{
	key->net = net;
	if (ends->family == AF_INET) {
		key->local = ends->local[0];
		key->remote = ends->remote[0];
	} else {
		key->local = fold(ends->local);
		key->remote = fold(ends->remote);
	}
	key->ports = (__u32)ends->local_port << 16 | ends->remote_port;
	key->family = ends->family;
}

/* The socket's ends; an IPv4 connection of an IPv6 socket is one of IPv4, as
 * its packets are. */
static __always_inline bool ends_of(struct sock *sk, struct ends *ends)
{
	__u16 family = sk->__sk_common.skc_family;
	const __be32 *local6 = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32;
	const __be32 *remote6 = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32;

	ends->local_port = sk->__sk_common.skc_num;
	ends->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	if (family == AF_INET6 &&
	    !(remote6[0] == 0 && remote6[1] == 0 && remote6[2] == bpf_htonl(0xffff))) {
		ends->family = AF_INET6;
		for (int i = 0; i < 4; i++) {
			ends->local[i] = local6[i];
			ends->remote[i] = remote6[i];
		}
		return true;
	}
	if (family != AF_INET && family != AF_INET6)
		return false;
	ends->family = AF_INET;
	ends->local[0] = sk->__sk_common.skc_rcv_saddr;
	ends->remote[0] = sk->__sk_common.skc_daddr;
	return true;
}

static __always_inline __u32 slot_of(__u64 latency)
{
	__u64 value = latency >> 8;
	__u32 exponent = 0;

	if (value < 8)
		return value;
#pragma unroll
	for (int shift = 32; shift; shift >>= 1) {
		if (value >> shift) {
			value >>= shift;
			exponent += shift;
		}
	}
	/* The three bits below the highest. */
	value = (latency >> 8 >> (exponent - 3)) & 7;
	exponent = (exponent - 2) * 8 + value;
	return exponent < LATENCY_SLOTS ? exponent : LATENCY_SLOTS - 1;
}

/* Whether the connection is in the sample, or a turn took long enough. */
static __always_inline bool is_sampled(const struct connection *c, __u64 latency)
{
	struct watch_control *now = bpf_map_lookup_elem(&control, &zero);

	return now && ((c->hash & now->sample_mask) == 0 || (now->slow_from && latency >= now->slow_from));
}

static __always_inline void hand_up_turn(struct connection *c)
{
	struct turn_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r) {
		count(lost_records);
		return;
	}
	r->kind = RECORD_TURN;
	r->nonagle = c->nonagle;
	r->reads = c->reads;
	r->writes = c->writes;
	r->ends = c->ends;
	r->arrived_at = c->turn_arrived_at;
	r->arrived_last_at = c->arrived_last_at;
	r->read_at = c->read_at;
	r->read_last_at = c->read_last_at;
	r->written_at = c->written_at;
	r->written_last_at = c->written_last_at;
	r->sent_at = c->sent_at;
	r->sent_last_at = c->sent_last_at;
	r->held_longest = c->held_longest;
	r->held = c->held;
	r->holds = c->holds;
	r->holds_acked = c->holds_acked;
	r->received_bytes = c->received_bytes;
	r->sent_bytes = c->sent_bytes;
	r->pid = c->pid;
	r->tid = c->tid;
	__builtin_memcpy(r->comm, c->comm, sizeof(r->comm));
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	count(records);
}

/* The turn is over: what was asked for has been sent. */
static __always_inline void close_turn(struct connection *c)
{
	__u64 latency, *seen;
	__u32 slot;

	if (!c->turn_arrived_at || !c->sent_last_at)
		return;
	count(turns);
	latency = c->sent_last_at - c->turn_arrived_at;
	slot = slot_of(latency);
	seen = bpf_map_lookup_elem(&latencies, &slot);
	if (seen)
		*seen += 1;
	if (is_sampled(c, latency))
		hand_up_turn(c);
}

static __always_inline void begin_turn(struct connection *c, __u64 now)
{
	c->turn_arrived_at = now;
	c->read_at = c->read_last_at = 0;
	c->written_at = c->written_last_at = 0;
	c->sent_at = c->sent_last_at = 0;
	c->held_longest = c->held = 0;
	c->holds = c->holds_acked = 0;
	c->writes = 0;
	c->reads = 0;
	c->received_bytes = c->sent_bytes = 0;
}

static __always_inline struct connection *make_connection(const struct key *key, const struct ends *ends)
{
	struct net *net = (void *)key->net;
	struct connection *c;

	if (bpf_map_update_elem(&connections, key, &blank, BPF_NOEXIST)) {
		count(lost_connections);
		return 0;
	}
	c = bpf_map_lookup_elem(&connections, key);
	if (!c)
		return 0;
	c->ends = *ends;
	c->namespace = BPF_CORE_READ(net, ns.inum);
	/* Services' ports are the lower ones, where nobody named them. */
	c->is_client = !config.port_count && ends->local_port > ends->remote_port;
	c->hash = (key->remote ^ key->ports) * 0x9E3779B97F4A7C15ull >> 40;
	count(connections);
	return c;
}

static __always_inline struct connection *find_by_socket(struct sock *sk, bool may_make)
{
	struct ends ends = {};
	struct key key = {};
	struct connection *c;

	if (!is_watched_port(sk->__sk_common.skc_num) || !ends_of(sk, &ends))
		return 0;
	make_key(&key, (__u64)sk->__sk_common.skc_net.net, &ends);
	c = bpf_map_lookup_elem(&connections, &key);
	if (!c && may_make)
		c = make_connection(&key, &ends);
	return c;
}

/* Hands up the segment's first bytes, from its IP header at `offset` on. */
static __always_inline void hand_up_segment(struct sk_buff *skb, __u8 kind, const struct connection *c,
					    __u64 now, __u32 offset, __u32 len, __u32 wanted)
{
	struct segment_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	__u32 linear;

	if (!r) {
		count(lost_records);
		return;
	}
	if (wanted > len)
		wanted = len;
	if (wanted > MAX_CAPTURED)
		wanted = MAX_CAPTURED;
	r->kind = kind;
	r->pad = 0;
	r->len = len;
	r->at = now;
	r->namespace = c->namespace;
	r->pad2 = 0;
	linear = skb->len - skb->data_len - offset;
	if (wanted > linear && bpf_dynptr_from_skb) {
		struct bpf_dynptr ptr;

		if (bpf_dynptr_from_skb(skb, 0, &ptr) ||
		    bpf_dynptr_read(r->bytes, wanted, &ptr, offset, 0))
			wanted = 0;
	} else {
		if (wanted > linear)
			wanted = linear;
		if (wanted > MAX_CAPTURED)
			wanted = MAX_CAPTURED;
		if (bpf_probe_read_kernel(r->bytes, wanted, skb->data + offset))
			wanted = 0;
	}
	r->captured = wanted;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	count(records);
}

/* What is read of a TCP header. */
struct tcp_header {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack;
	__u8 doff;
	__u8 flags;
	__be16 window;
};

struct headers {
	union {
		struct {
			__u8 version_ihl;
			__u8 tos;
			__be16 len;
			__be16 id;
			__be16 fragment;
			__u8 ttl;
			__u8 protocol;
			__be16 check;
			__be32 source;
			__be32 dest;
			struct tcp_header tcp;
		} v4;
		struct {
			__be32 flow;
			__be16 payload_len;
			__u8 next;
			__u8 hops;
			__be32 source[4];
			__be32 dest[4];
			struct tcp_header tcp;
		} v6;
	};
};

/* An arriving segment to one of the watched connections. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb)
{
	struct headers h;
	struct tcp_header tcp;
	struct ends ends = {};
	struct key key = {};
	struct connection *c;
	__u32 header_len, payload_len, len;
	__u64 now;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_probe_read_kernel(&h.v4, sizeof(h.v4), skb->data))
			return 0;
		/* Options of IPv4 are not seen in the wild. */
		if (h.v4.version_ihl != 0x45 || h.v4.protocol != IPPROTO_TCP)
			return 0;
		tcp = h.v4.tcp;
		if (!is_watched_port(bpf_ntohs(tcp.dest)))
			return 0;
		header_len = 20;
		len = bpf_ntohs(h.v4.len);
		ends.family = AF_INET;
		ends.local[0] = h.v4.dest;
		ends.remote[0] = h.v4.source;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_probe_read_kernel(&h.v6, sizeof(h.v6), skb->data))
			return 0;
		if (h.v6.next != IPPROTO_TCP)
			return 0;
		tcp = h.v6.tcp;
		if (!is_watched_port(bpf_ntohs(tcp.dest)))
			return 0;
		header_len = 40;
		len = header_len + bpf_ntohs(h.v6.payload_len);
		ends.family = AF_INET6;
		__builtin_memcpy(ends.local, h.v6.dest, 16);
		__builtin_memcpy(ends.remote, h.v6.source, 16);
	} else {
		return 0;
	}
	ends.local_port = bpf_ntohs(tcp.dest);
	ends.remote_port = bpf_ntohs(tcp.source);
	make_key(&key, (__u64)skb->dev->nd_net.net, &ends);
	c = bpf_map_lookup_elem(&connections, &key);
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	if (c->last_in_skb == (__u64)skb && c->last_in_seq == tcp.seq && now - c->last_in_at < COPY_WITHIN)
		return 0;
	c->last_in_skb = (__u64)skb;
	c->last_in_seq = tcp.seq;
	c->last_in_at = now;

	/* A super-segment longer than IP's length field can say. */
	if (len <= header_len)
		len = skb->len;
	header_len += (tcp.doff >> 4) * 4;
	payload_len = len > header_len ? len - header_len : 0;
	if (payload_len && !c->is_client) {
		if (!c->turn_arrived_at || c->sent_last_at) {
			close_turn(c);
			begin_turn(c, now);
		}
		c->arrived_last_at = now;
		c->received_bytes += payload_len;
	}
	if (is_sampled(c, 0)) {
		__u32 wanted = header_len;

		if (payload_len && (c->is_client || c->arrived_last_at == c->turn_arrived_at))
			wanted += config.request_bytes;
		hand_up_segment(skb, RECORD_SEGMENT_IN, c, now, 0, len, wanted);
	}
	return 0;
}

/* A segment on its way to a device. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct tcp_header tcp;
	struct connection *c;
	__u32 offset, header_len, payload_len, len;
	__u64 now;
	unsigned char state;

	if (!sk || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	state = sk->__sk_common.skc_state;
	if (state == TCP_SYN_SENT || state == TCP_SYN_RECV || state == TCP_NEW_SYN_RECV)
		return 0;
	c = find_by_socket(sk, is_for_ports_alone());
	if (!c)
		return 0;
	if (bpf_probe_read_kernel(&tcp, sizeof(tcp), skb->head + skb->transport_header))
		return 0;
	now = bpf_ktime_get_ns();
	if (c->last_out_skb == (__u64)skb && c->last_out_seq == tcp.seq && now - c->last_out_at < COPY_WITHIN)
		return 0;
	c->last_out_skb = (__u64)skb;
	c->last_out_seq = tcp.seq;
	c->last_out_at = now;

	offset = skb->head + skb->network_header - skb->data;
	if (offset > 256)
		return 0;
	len = skb->len - offset;
	header_len = skb->transport_header - skb->network_header + (tcp.doff >> 4) * 4;
	payload_len = len > header_len ? len - header_len : 0;
	if (is_sampled(c, 0)) {
		__u32 wanted = header_len;

		if (payload_len && !c->sent_last_at)
			wanted += config.response_bytes;
		hand_up_segment(skb, RECORD_SEGMENT_OUT, c, now, offset, len, wanted);
	}
	if (payload_len && c->turn_arrived_at) {
		if (!c->sent_at)
			c->sent_at = now;
		c->sent_last_at = now;
		c->sent_bytes += payload_len;
	}
	if (c->held_since && payload_len && (__s32)(bpf_ntohl(tcp.seq) + payload_len - c->held_seq) > 0) {
		__u64 held = now - c->held_since;

		c->held += held;
		c->holds += 1;
		if (held > c->held_longest)
			c->held_longest = held;
		/* What arrived since it was written let it go. */
		if (c->last_in_at > c->held_since)
			c->holds_acked += 1;
		c->held_since = 0;
	}
	return 0;
}

/* The program has read, `ret` bytes or an error. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock *sk, int ret, int flags)
{
	struct connection *c;
	__u64 now;

	if (ret <= 0 || sk->sk_protocol != IPPROTO_TCP || !is_watched_program())
		return 0;
	c = find_by_socket(sk, true);
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	if (!c->read_at) {
		__u64 id = bpf_get_current_pid_tgid();

		c->read_at = now;
		if (c->pid != id >> 32 || c->tid != (__u32)id) {
			c->pid = id >> 32;
			c->tid = id;
			bpf_get_current_comm(c->comm, sizeof(c->comm));
		}
	}
	c->read_last_at = now;
	c->reads += 1;
	return 0;
}

/* The program has written, `ret` bytes or an error. What it wrote has been
 * sent by now, or waits for what its socket shows. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length, struct sock *sk, int ret, int flags)
{
	struct connection *c;
	struct tcp_sock *tp;
	__u32 unsent, in_flight;
	__u64 now;

	if (ret <= 0 || sk->sk_protocol != IPPROTO_TCP || !is_watched_program())
		return 0;
	c = find_by_socket(sk, true);
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	if (!c->written_at)
		c->written_at = now;
	c->written_last_at = now;
	c->writes += 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	unsent = tp->write_seq - tp->snd_nxt;
	if (!unsent || c->held_since)
		return 0;
	/* As tcp_nagle_check() holds it: less than a segment, something
	 * unacknowledged, and neither window is full. */
	c->nonagle = BPF_CORE_READ_BITFIELD(tp, nonagle);
	in_flight = tp->snd_nxt - tp->snd_una;
	if (!c->nonagle && unsent < tp->mss_cache && tp->packets_out && tp->packets_out < tp->snd_cwnd &&
	    in_flight + unsent <= tp->snd_wnd) {
		c->held_since = now;
		c->held_seq = tp->snd_nxt;
	}
	return 0;
}

/* Connections begin and end. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int old, int new)
{
	struct ends ends = {};
	struct key key = {};
	struct connection *c;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (new == TCP_ESTABLISHED && is_for_ports_alone()) {
		find_by_socket(sk, true);
		return 0;
	}
	if (new != TCP_CLOSE || !ends_of(sk, &ends))
		return 0;
	/* The port has been given back by now; the one that packets name stays. */
	ends.local_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	if (!is_watched_port(ends.local_port))
		return 0;
	make_key(&key, (__u64)sk->__sk_common.skc_net.net, &ends);
	c = bpf_map_lookup_elem(&connections, &key);
	if (!c)
		return 0;
	close_turn(c);
	bpf_map_delete_elem(&connections, &key);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
