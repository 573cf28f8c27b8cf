/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The watched connections and their counts. */
#ifndef LAGTRACE_WATCH_CONNECTIONS_H
#define LAGTRACE_WATCH_CONNECTIONS_H

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_TIME_WAIT 6
#define TCP_CLOSE 7
#define TCP_NEW_SYN_RECV 12
/* Both directions of a socket are shut down (include/net/sock.h). */
#define SHUTDOWN_MASK 3
/* Length of the timestamp option with its padding (TCPOLEN_TSTAMP_ALIGNED in
 * include/net/tcp.h). */
#define TIMESTAMP_BYTES 12

/* Maximum time in ns by which a connection's first request can precede its
 * socket: the time that the network stack needs. */
#define KEPT_BEFORE 100000000

const volatile struct watch_config config SEC(".rodata.config") = {};

/* How far the handshake of a connection with TLS has come. */
enum tls_phase {
	TLS_NONE,
	/* The client's hello has come. */
	TLS_BEGUN,
	/* Its ChangeCipherSpec has come. */
	TLS_CIPHERED,
	/* Its Finished has come. */
	TLS_FINISHED,
	/* The first request has come. What the server sends may still belong to the
	 * handshake: tickets. */
	TLS_ANSWERING,
	TLS_OVER,
};

struct tls_state {
	/* The sequence number of the client's next record, and then that of its first
	 * request. */
	__u32 next_seq;
	/* A value of enum tls_phase. */
	__u8 phase;
	/* Number of encrypted records of the client. */
	__u8 encrypted;
	/* Number of messages in which a hello was looked for. */
	__u8 before;
};

/* The storage of a watched socket: its current exchange. Times are
 * CLOCK_MONOTONIC in ns; 0: the event did not happen. */
struct connection {
	struct ends ends;
	__u64 arrived_at;
	__u64 entered_at;
	__u64 delivered_at;
	__u64 delivered_last_at;
	__u64 read_at;
	__u64 written_at;
	__u64 written_last_at;
	__u64 sent_at;
	__u64 sent_last_at;
	__u64 held_since;
	__u64 held_longest;
	__u64 held;
	/* Time when the latest observed segment arrived. */
	__u64 last_in_at;
	/* Time when the handshake ended, if this host accepted the connection. */
	__u64 made_at;
	__u32 holds;
	__u32 holds_acked;
	__u32 writes;
	/* The value of `snd_nxt` at the last check. */
	__u32 sent_seq;
	__u32 held_seq;
	/* HTTP/2: the first byte that was read and not reported yet, and the times of the
	 * first and the last read since; 0: there is none. */
	__u32 read_seq;
	__u64 reading_since;
	__u64 last_read_at;
	__u32 hash;
	/* Times of the answering thread, as in struct turn_record, and the thread's sums
	 * when the request was read. They are unknown if `look` is 0. */
	__u64 queued_unread;
	__u64 waking_unread;
	__u64 queued;
	__u64 queued_before;
	__u64 waking;
	__u64 waking_before;
	__u64 slept;
	__u64 slept_before;
	struct asked asked;
	__u32 look;
	/* The sampling period in which the exchange began; 0: outside of sampling
	 * periods. */
	__u32 turn_look;
	__u32 pid;
	__u32 tid;
	/* Some written bytes had not been sent at the last check. */
	__u8 is_unsent;
	/* This end sends the requests. Its exchanges are not timed. */
	__u8 is_client;
	/* The port is watched, or a watched program uses the connection. */
	__u8 is_ours;
	/* This host accepted the connection, and no request has been seen on it. */
	__u8 is_fresh;
	/* The connection uses HTTP/2: it has no exchanges in turn. */
	__u8 is_framed;
	/* Number of requests that did not begin with a frame. */
	__u8 unframed;
	struct tls_state tls;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

/* The key of a connection, which can be computed from a packet as well as from a
 * socket. */
struct key {
	__u64 net;
	__u64 local;
	__u64 remote;
	__u32 ports;
	__u32 family;
};

/* The last frame seen in one direction, with the time and the device. */
struct sighting {
	__u64 at;
	__u64 skb;
	__u64 dev;
	__u32 seq;
};

/* The state of a connection for the programs that see only packets. */
struct flow {
	struct sighting last_in;
	struct sighting last_out;
	struct terms own;
	struct terms peer;
	/* Times when the device's driver received the first and the last segments of the
	 * latest answer, and how long each of them waited in queueing disciplines, in
	 * ns. */
	__u64 first_left_at;
	__u64 first_queued;
	__u64 left_at;
	__u64 queued;
	__u32 first_seq;
	/* The sequence number after the last byte that left. */
	__u32 left_seq;
	__u32 hash;
	__u32 namespace;
	__u8 is_client;
	__u8 is_ours;
	/* Bytes have arrived, and none have been sent since. */
	__u8 is_asked;
	/* As in struct connection. */
	__u8 is_framed;
	__u8 unframed;
	struct tls_state tls;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct key);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} records SEC(".maps");

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

/* Time of the last packet that was dropped because its socket was out of memory.
 * The namespace is not known at that point, so `net` in these keys is 0. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct key);
	__type(value, __u64);
} refusals SEC(".maps");

/* True if `refusals` has entries. */
__u32 has_refusals = 0;

/* Maximum number of bytes kept of a first segment. HTTP/2 begins with a preface, settings
 * and perhaps a request. */
#define MAX_KEPT 1024

struct kept_segment {
	struct segment_record record;
	__u8 more[MAX_KEPT - MAX_CAPTURED];
	/* True if the segment was reported when it came; its bytes are not here. */
	__u8 is_reported;
	struct tls_state tls;
};

/* The first segment with a request, for connections that are not known to be
 * watched yet. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct key);
	__type(value, struct kept_segment);
} kept SEC(".maps");

static const struct kept_segment no_segment = {};

static const __u32 zero = 0;

/* Adds one to a counter of this processor. */
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
	if (config.tgid && current_numbers(config.pid_namespace) >> 32 != config.tgid)
		return false;
	return !config.cgroup || bpf_get_current_cgroup_id() == config.cgroup;
}

static __always_inline bool is_watched_namespace(struct net *net)
{
	return !config.namespace || BPF_CORE_READ(net, ns.inum) == config.namespace;
}

/* Returns true if the connection with this hash is in the sample of the current
 * sampling period. */
static __always_inline bool is_sampled(__u32 hash)
{
	struct watch_control *now = bpf_map_lookup_elem(&control, &zero);

	return now && now->look && (hash & now->sample_mask) == 0;
}

/* Returns true if the segments of handshakes are reported one by one: the ports alone
 * select connections, and there are no pauses in which such a segment could pass
 * unseen. */
static __always_inline bool shows_handshakes(void)
{
	struct watch_control *now = bpf_map_lookup_elem(&control, &zero);

	return is_for_ports_alone() && now && now->look && now->is_whole;
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

static __always_inline __u32 hash_of(const struct key *key)
{
	return (key->remote ^ key->ports) * 0x9E3779B97F4A7C15ull >> 40;
}

/* Reads the socket's addresses and ports. An IPv4 connection of an IPv6 socket
 * gets the family AF_INET, as in its packets. */
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

/* Returns the MSS that this end offered in its SYN. If the connection uses
 * timestamps, the kernel subtracts their bytes from `advmss` when it becomes
 * established. Some kernels do so just before the tracepoint
 * inet_sock_set_state, others just after it (tcp_rcv_state_process() in
 * net/ipv4/tcp_input.c). In that tracepoint, the bytes count as subtracted if
 * `advmss` with these bytes still fits the path MTU. */
static __always_inline __u16 offered_mss(const struct connection *c, const struct tcp_sock *tp)
{
	const struct tcp_options_received *options = &tp->rx_opt;
	const struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	__u16 headers = c->ends.family == AF_INET6 ? 60 : 40;
	__u32 restored = tp->advmss + TIMESTAMP_BYTES;

	if (!BPF_CORE_READ_BITFIELD_PROBED(options, tstamp_ok))
		return tp->advmss;
	if (sk->__sk_common.skc_state == TCP_SYN_RECV && restored + headers > tp->inet_conn.icsk_pmtu_cookie)
		return tp->advmss;
	return restored;
}

/* Reads the options that both ends offered. The peer's MSS is the minimum of its
 * offer and of this end's own limit. */
static __always_inline void read_terms(struct flow *flow, const struct connection *c, struct tcp_sock *tp)
{
	struct tcp_options_received *options = &tp->rx_opt;

	flow->own.mss = offered_mss(c, tp);
	flow->peer.mss = tp->rx_opt.mss_clamp;
	if (BPF_CORE_READ_BITFIELD_PROBED(options, wscale_ok)) {
		flow->own.window_scale = BPF_CORE_READ_BITFIELD_PROBED(options, rcv_wscale);
		flow->peer.window_scale = BPF_CORE_READ_BITFIELD_PROBED(options, snd_wscale);
	}
}

static __always_inline void note_flow(const struct key *key, const struct connection *c, struct tcp_sock *tp)
{
	struct net *net = (void *)key->net;
	struct flow flow = {
		.hash = c->hash,
		.namespace = BPF_CORE_READ(net, ns.inum),
		.is_client = c->is_client,
	};

	read_terms(&flow, c, tp);
	if (bpf_map_update_elem(&flows, key, &flow, BPF_ANY))
		count(lost_connections);
}

static __noinline struct connection *make_connection(struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct ends ends = {};
	struct key key = {};
	struct connection *c;

	if (!tp || !is_watched_namespace(sk->__sk_common.skc_net.net) || !ends_of(sk, &ends))
		return 0;
	c = bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!c) {
		count(lost_connections);
		return 0;
	}
	make_key(&key, (__u64)sk->__sk_common.skc_net.net, &ends);
	c->ends = ends;
	c->sent_seq = tp->snd_nxt;
	/* Without configured ports, the end with the lower port is the service. */
	c->is_client = !config.port_count && ends.local_port > ends.remote_port;
	c->hash = hash_of(&key);
	note_flow(&key, c, tp);
	return c;
}

/* Reports the handshake of a connection that this host has just accepted, unless its
 * segments were reported. Three kinds are left out, because the socket does not have
 * all their values: handshakes with retransmissions, with SYN cookies and with
 * TCP_DEFER_ACCEPT. */
static __always_inline void hand_up_opening(struct sock *sk, struct tcp_sock *tp, const struct connection *c)
{
	struct tcp_options_received *options = &tp->rx_opt;
	struct net *net = sk->__sk_common.skc_net.net;
	struct opening_record *r;
	struct flow terms = {};

	if (shows_handshakes() || !is_sampled(c->hash) || !tp->srtt_us || tp->total_retrans ||
	    tp->inet_conn.icsk_accept_queue.rskq_defer_accept)
		return;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		count(lost_records);
		return;
	}
	read_terms(&terms, c, tp);
	r->kind = RECORD_OPENING;
	r->has_scaling = BPF_CORE_READ_BITFIELD_PROBED(options, wscale_ok);
	r->has_sack = BPF_CORE_READ_BITFIELD_PROBED(options, sack_ok) != 0;
	r->has_timestamps = BPF_CORE_READ_BITFIELD_PROBED(options, tstamp_ok);
	r->tsval = tp->rx_opt.rcv_tsval;
	r->tsecr = tp->rx_opt.rcv_tsecr + tp->tsoffset;
	r->namespace = BPF_CORE_READ(net, ns.inum);
	r->at = bpf_ktime_get_ns();
	r->ends = c->ends;
	/* The kernel keeps the smoothed round-trip time in eighths of a microsecond. */
	r->rtt_us = tp->srtt_us >> 3;
	r->own_seq = tp->snd_nxt;
	r->peer_seq = tp->rcv_nxt;
	r->own_window = tp->rcv_wnd;
	r->peer_window = tp->snd_wnd;
	r->own = terms.own;
	r->peer = terms.peer;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Reports the segment that was kept for a connection, unless it is more than
 * KEPT_BEFORE older than the connection, or was reported when it came. */
static __always_inline void hand_up_kept(const struct key *key, struct flow *flow, struct connection *c)
{
	struct kept_segment *found = bpf_map_lookup_elem(&kept, key), *r;

	if (!found || found->record.at + KEPT_BEFORE < c->made_at)
		return;
	flow->is_asked = 1;
	if (found->tls.phase && !flow->tls.phase)
		flow->tls = found->tls;
	if (found->tls.phase && !c->tls.phase) {
		c->tls = found->tls;
		c->is_fresh = 0;
	}
	if (found->is_reported)
		goto out;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		count(lost_records);
		return;
	}
	bpf_probe_read_kernel(r, sizeof(*r), found);
	r->record.namespace = flow->namespace;
	r->record.terms = flow->peer;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
out:
	bpf_map_delete_elem(&kept, key);
}

/* Marks a connection as watched: its port is watched, or a watched program reads
 * or writes it. */
static __always_inline void claim(const struct sock *sk, struct connection *c)
{
	struct key key = {};
	struct flow *flow;

	if (c->is_ours)
		return;
	c->is_ours = 1;
	count(connections);
	make_key(&key, (__u64)sk->__sk_common.skc_net.net, &c->ends);
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow)
		return;
	flow->is_ours = 1;
	flow->is_client = c->is_client;
	if (c->made_at && is_sampled(c->hash))
		hand_up_kept(&key, flow, c);
}

static __always_inline struct connection *connection_of(struct sock *sk, bool may_make)
{
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, 0);

	return c || !may_make ? c : make_connection(sk);
}

#endif
