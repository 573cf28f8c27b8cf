/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The exchanges of watched connections (in names: turns). An exchange lasts from
 * the first byte that arrives to the last byte that is sent before more bytes
 * arrive. */
#ifndef LAGTRACE_WATCH_TURNS_H
#define LAGTRACE_WATCH_TURNS_H

#define FLAG_FIN 0x01
#define FLAG_SYN 0x02
#define FLAG_RST 0x04
#define MSG_PEEK 2

/* The part of a TCP header that is read. */
struct tcp_header {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack;
	__u8 doff;
	__u8 flags;
	__be16 window;
};

/* Maximum time in ns that a segment takes through the network stack. A longer
 * time means that the clock was set. */
#define LONGEST_STAMPED 1000000000

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LATENCY_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} latencies SEC(".maps");

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
	/* The three bits below the highest one. */
	value = (latency >> 8 >> (exponent - 3)) & 7;
	exponent = (exponent - 2) * 8 + value;
	return exponent < LATENCY_SLOTS ? exponent : LATENCY_SLOTS - 1;
}

/* Fills in the time when the answer left the host, if it was observed. */
static __always_inline void note_leaving(struct turn_record *r, const struct connection *c, __u64 net)
{
	struct key key = {};
	struct flow *flow;

	r->left_at = r->first_queued_out = r->queued_out = 0;
	if (!is_sampled(c->hash))
		return;
	make_key(&key, net, &c->ends);
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow || flow->left_seq != c->sent_seq || flow->first_left_at < c->arrived_at)
		return;
	r->left_at = flow->left_at;
	r->first_queued_out = flow->first_queued;
	r->queued_out = flow->queued;
}

/* Returns the time when a packet of this exchange was last dropped because the
 * socket was out of memory; 0 if none was. */
static __always_inline __u64 refused(const struct connection *c)
{
	struct key key = {};
	__u64 *at;

	if (!has_refusals)
		return 0;
	make_key(&key, 0, &c->ends);
	at = bpf_map_lookup_elem(&refusals, &key);
	return at && *at >= c->arrived_at ? *at : 0;
}

static __always_inline void hand_up_turn(const struct connection *c, __u64 net)
{
	struct turn_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r) {
		count(lost_records);
		return;
	}
	r->kind = RECORD_TURN;
	r->has_thread = c->look != 0;
	r->pad = 0;
	r->writes = c->writes;
	r->ends = c->ends;
	r->arrived_at = c->arrived_at;
	r->entered_at = c->entered_at;
	r->delivered_at = c->delivered_at;
	r->delivered_last_at = c->delivered_last_at;
	r->read_at = c->read_at;
	r->written_at = c->written_at;
	r->written_last_at = c->written_last_at;
	r->sent_at = c->sent_at;
	r->sent_last_at = c->sent_last_at;
	note_leaving(r, c, net);
	r->refused_at = refused(c);
	r->held_longest = c->held_longest;
	r->held = c->held;
	r->holds = c->holds;
	r->holds_acked = c->holds_acked;
	r->queued_unread = c->queued_unread;
	r->waking_unread = c->waking_unread;
	r->queued = c->queued;
	r->waking = c->waking;
	r->slept = c->slept;
	r->asked = c->asked;
	r->pid = c->pid;
	r->tid = c->tid;
	__builtin_memcpy(r->comm, c->comm, sizeof(r->comm));
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Ends an exchange whose answer has been sent. */
static __always_inline void close_turn(struct connection *c, const struct sock *sk)
{
	struct watch_control *now = bpf_map_lookup_elem(&control, &zero);
	__u64 latency, *seen;
	__u32 slot;

	if (!c->arrived_at || !c->sent_last_at)
		return;
	latency = c->sent_last_at - c->arrived_at;
	slot = slot_of(latency);
	seen = c->is_ours ? bpf_map_lookup_elem(&latencies, &slot) : 0;
	if (seen && now) {
		*seen += 1;
		/* For an exchange that began before the sampling period, reads and
		 * writes may be missing. */
		if ((is_sampled(c->hash) && c->turn_look == now->look) ||
		    (now->slow_from && latency >= now->slow_from))
			hand_up_turn(c, (__u64)sk->__sk_common.skc_net.net);
	}
	c->arrived_at = 0;
	if (c->tls.phase == TLS_ANSWERING)
		c->tls.phase = TLS_OVER;
}

/* Returns the arrival time from the segment's timestamp, which the kernel takes
 * only while some socket of the host uses SO_TIMESTAMP; otherwise `now`. */
static __always_inline __u64 came_in(const struct sk_buff *skb, __u64 now)
{
	struct watch_control *with = bpf_map_lookup_elem(&control, &zero);
	__u64 at;

	if (!with || !with->look || !skb->tstamp)
		return now;
	at = skb->tstamp + with->monotonic;
	/* The timestamp is useless if the clock was set. */
	return at < now && now - at < LONGEST_STAMPED ? at : now;
}

/* Returns the time when the network stack took the segment up; 0 if it was not
 * observed. */
static __always_inline __u64 entered(const struct sock *sk, const struct connection *c, const struct sk_buff *skb)
{
	struct key key = {};
	struct flow *flow;

	if (!is_sampled(c->hash))
		return 0;
	make_key(&key, (__u64)sk->__sk_common.skc_net.net, &c->ends);
	flow = bpf_map_lookup_elem(&flows, &key);
	return flow && flow->last_in.skb == (__u64)skb ? flow->last_in.at : 0;
}

static __always_inline void begin_turn(struct connection *c, __u64 arrived_at, __u64 entered_at, __u64 delivered_at)
{
	c->arrived_at = arrived_at;
	c->entered_at = entered_at;
	/* The timestamp of a segment from another namespace of this host is too late. */
	if (entered_at && entered_at < arrived_at)
		c->arrived_at = entered_at;
	c->delivered_at = c->delivered_last_at = delivered_at;
	c->is_fresh = 0;
	c->look = 0;
	c->turn_look = current_look();
	c->read_at = 0;
	c->written_at = c->written_last_at = 0;
	c->sent_at = c->sent_last_at = 0;
	c->held_longest = c->held = 0;
	c->holds = c->holds_acked = 0;
	c->writes = 0;
	c->asked.took = 0;
}

/* Begins the exchange of a request that came with the handshake's last segment,
 * which tcp_probe does not show. This happens with TCP_DEFER_ACCEPT, and if a
 * client sends both in one segment. */
static __always_inline void begin_first_turn(struct connection *c)
{
	begin_turn(c, c->made_at, 0, c->made_at);
}

/* Accounts for the bytes that were sent since the last check. The last of them
 * was sent at `at`. */
static __always_inline void settle(struct connection *c, const struct tcp_sock *tp, __u64 at)
{
	__u32 next = tp->snd_nxt;

	if (c->is_fresh && tp->bytes_received)
		begin_first_turn(c);
	if (next == c->sent_seq)
		return;
	if (c->is_framed && is_sampled(c->hash))
		hand_up_sent(c, at, next);
	c->sent_seq = next;
	c->is_unsent = next != tp->write_seq;
	if (is_unasked(&c->tls, tp->copied_seq))
		return;
	/* An answer is sent after its request arrives, so an earlier time comes from an
	 * older segment. */
	if (at < c->arrived_at)
		at = c->arrived_at;
	if (!c->sent_at)
		c->sent_at = at;
	c->sent_last_at = at;
	if (c->held_since && (__s32)(next - c->held_seq) > 0) {
		__u64 held = at > c->held_since ? at - c->held_since : 0;

		c->held += held;
		c->holds += 1;
		if (held > c->held_longest)
			c->held_longest = held;
		/* Something has arrived since the bytes were written, and released them. */
		if (c->last_in_at > c->held_since)
			c->holds_acked += 1;
		c->held_since = 0;
	}
}

/* Returns the time when TCP last sent something, from TCP's own timestamp. With
 * pacing, the timestamp is the time at which the next segment may leave. After a
 * retransmission, it is the time of the retransmission. Both are later than the
 * true time. */
static __always_inline __u64 departed(const struct tcp_sock *tp, __u64 now)
{
	return tp->tcp_wstamp_ns < now ? tp->tcp_wstamp_ns : now;
}

/* Returns true if the segment contains bytes that had not arrived before. */
static __always_inline bool brings_data(const struct sk_buff *skb, const struct tcp_sock *tp)
{
	const struct tcp_skb_cb *cb = (const void *)skb->cb;
	__u32 end = cb->end_seq - !!(cb->tcp_flags & FLAG_FIN);

	return end != cb->seq && (__s32)(end - tp->rcv_nxt) > 0;
}

/* Returns the length of the segment's TCP header, with which the skb's data begin; 0 if it
 * cannot be read. */
static __always_inline __u8 header_length(const struct sk_buff *skb)
{
	__u8 doff;

	if (bpf_probe_read_kernel(&doff, sizeof(doff), skb->data + __builtin_offsetof(struct tcp_header, doff)))
		return 0;
	return (doff >> 4) * 4;
}

/* Returns true if the segment, which begins a request, shows that the connection uses
 * HTTP/2. */
static __always_inline bool is_framed_by(struct connection *c, const struct tcp_sock *tp, struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = (const void *)skb->cb;
	__u8 doff;

	if (c->unframed >= MAX_UNFRAMED || cb->seq != tp->rcv_nxt)
		return false;
	c->unframed += 1;
	doff = header_length(skb);
	return doff && shows_frames(skb, doff, skb->len - doff);
}

/* Returns true if the segment asks for nothing: it is a part of a handshake, or an alert.
 * `is_first` is true if it begins a message. */
static __noinline bool asks_nothing(struct connection *c, struct sk_buff *skb, bool is_first)
{
	const struct tcp_skb_cb *cb = (const void *)skb->cb;
	__u8 doff = header_length(skb), phase = c->tls.phase;
	__u32 len = skb->len - doff, before;

	if (!doff)
		return false;
	before = of_tls_handshake(&c->tls, skb, doff, len, cb->seq, is_first);
	if (c->is_ours && phase < TLS_ANSWERING && c->tls.phase == TLS_ANSWERING)
		count(tls_handshakes);
	/* What was taken for the first request was the hello. */
	if (phase == TLS_NONE && before && c->tls.phase != TLS_BEGUN)
		c->arrived_at = 0;
	return (before && before == len) || (is_first && is_alert(&c->tls, skb, doff, len));
}

/* A segment for an established connection arrives at TCP, which has not
 * processed it yet. If the program held the socket's lock, the segment has
 * waited until now. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(tcp_probe, struct sock *sk, struct sk_buff *skb)
{
	struct connection *c;
	bool has_data, is_first;
	struct tcp_sock *tp;
	__u64 now;

	if (!is_watched_port(sk->__sk_common.skc_num))
		return 0;
	c = connection_of(sk, is_for_ports_alone());
	if (!c || c->is_client)
		return 0;
	if (is_for_ports_alone())
		claim(sk, c);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	has_data = brings_data(skb, tp);
	/* Outside of sampling periods, writes are not observed, so this ACK may be the
	 * first sign of an answer. It is processed now, before TCP sends something else
	 * that is not an answer, such as the reply to a keep-alive probe. */
	if (!has_data && !c->is_unsent && tp->snd_nxt == c->sent_seq)
		return 0;
	/* The clock is read only if necessary, because reading it is most of the cost of
	 * a pure ACK. */
	now = has_data || c->held_since || sk->sk_pacing_status ? bpf_ktime_get_ns() : tp->tcp_wstamp_ns;
	settle(c, tp, departed(tp, now));
	c->last_in_at = now;
	if (!has_data)
		return 0;
	is_first = !c->arrived_at || c->sent_last_at;
	if (!c->is_framed && asks_nothing(c, skb, is_first)) {
		if (is_first)
			close_turn(c, sk);
		c->is_fresh = 0;
		return 0;
	}
	if (!c->is_framed && is_first) {
		close_turn(c, sk);
		if (is_framed_by(c, tp, skb))
			begin_frames(c, sk);
	}
	if (c->is_framed) {
		hand_up_delivered(c, (const void *)skb->cb, came_in(skb, now), entered(sk, c, skb), now);
		return 0;
	}
	if (!c->arrived_at) {
		begin_turn(c, came_in(skb, now), entered(sk, c, skb), now);
	}
	c->delivered_last_at = now;
	return 0;
}

static __always_inline bool is_watched(struct sock *sk)
{
	return sk->sk_protocol == IPPROTO_TCP && is_watched_port(sk->__sk_common.skc_num) &&
	       is_watched_program();
}

/* The program has read. `ret` is the number of bytes or an error. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock *sk, int ret, int flags)
{
	struct connection *c;
	struct tcp_sock *tp;
	__u64 id;

	/* Peeked bytes stay in the socket. */
	if (ret <= 0 || flags & MSG_PEEK)
		return 0;
	if (!is_watched(sk)) {
		thread_is_answered(sk);
		return 0;
	}
	c = connection_of(sk, true);
	if (!c)
		return 0;
	claim(sk, c);
	if (c->is_client)
		thread_is_answered(sk);
	if (c->is_framed) {
		tp = bpf_skc_to_tcp_sock(sk);
		if (tp)
			note_reading(c, tp, ret);
		return 0;
	}
	if (c->is_client || c->read_at)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp && is_unasked(&c->tls, tp->copied_seq))
		return 0;
	if (c->is_fresh)
		begin_first_turn(c);
	c->read_at = bpf_ktime_get_ns();
	id = current_numbers(config.pid_namespace);
	if (c->pid != id >> 32 || c->tid != (__u32)id) {
		c->pid = id >> 32;
		c->tid = id;
		bpf_get_current_comm(c->comm, sizeof(c->comm));
	}
	if (c->arrived_at)
		thread_reads(c, sk);
	return 0;
}

/* Returns true if Nagle's algorithm holds the unsent bytes (tcp_nagle_check()):
 * they are less than a full segment, sent data is unacknowledged, and neither
 * the congestion window nor the receive window is full. */
static __always_inline bool is_held(struct tcp_sock *tp)
{
	__u32 unsent = tp->write_seq - tp->snd_nxt, in_flight = tp->snd_nxt - tp->snd_una;

	return !BPF_CORE_READ_BITFIELD(tp, nonagle) && unsent < tp->mss_cache && tp->packets_out &&
	       tp->packets_out < tp->snd_cwnd && in_flight + unsent <= tp->snd_wnd;
}

/* The program has written. `ret` is the number of bytes or an error. TCP has
 * already sent these bytes or keeps them unsent, as the socket shows. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length, struct sock *sk, int ret, int flags)
{
	struct connection *c;
	struct tcp_sock *tp;
	__u64 now;

	if (ret <= 0)
		return 0;
	if (!is_watched(sk)) {
		thread_asks(sk);
		return 0;
	}
	c = connection_of(sk, true);
	if (!c)
		return 0;
	claim(sk, c);
	if (c->is_client)
		thread_asks(sk);
	if (c->is_client)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	c->is_unsent = tp->write_seq != tp->snd_nxt;
	/* TCP's own timestamp of the sent bytes is as good as the clock. */
	now = c->is_unsent || sk->sk_pacing_status ? bpf_ktime_get_ns() : tp->tcp_wstamp_ns;
	settle(c, tp, departed(tp, now));
	if (c->is_framed) {
		note_writing(c, tp, ret, now);
	} else if (!is_unasked(&c->tls, tp->copied_seq)) {
		if (!c->written_at)
			note_asked(c, sk);
		thread_writes(c, !c->written_at);
		if (!c->written_at)
			c->written_at = now;
		c->written_last_at = now;
		c->writes += 1;
	}
	if (c->is_unsent && !c->held_since && is_held(tp)) {
		c->held_since = now;
		c->held_seq = tp->snd_nxt;
	}
	return 0;
}

/* Ends the last exchange of each open connection when watching ends, because no
 * later segment will. */
SEC("iter/bpf_sk_storage_map")
int open_turns(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct connection *c = context->value;
	struct sock *sk = context->sk;
	struct tcp_sock *tp;

	if (!sk || !c)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	settle(c, tp, departed(tp, bpf_ktime_get_ns()));
	if (!c->is_unsent)
		close_turn(c, sk);
	return 0;
}

/* A connection was established. Unless it is selected by port alone, it is known
 * to be watched only when a program reads from it. Its request may arrive before
 * that. */
static __always_inline void open_connection(struct sock *sk, struct tcp_sock *tp, bool is_accepted)
{
	struct connection *c = connection_of(sk, true);

	if (!c || !tp)
		return;
	if (is_accepted) {
		c->is_client = 0;
		/* For data that came with the SYN, the arrival time is not known. */
		c->is_fresh = !tp->bytes_received;
		c->made_at = bpf_ktime_get_ns();
	}
	if (!is_for_ports_alone())
		return;
	if (is_accepted)
		hand_up_opening(sk, tp, c);
	claim(sk, c);
}

/* A connection is established or closed. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int old, int new)
{
	struct connection *c;
	struct tcp_sock *tp;
	struct key key = {};

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (new == TCP_SYN_SENT) {
		thread_connects(sk);
		return 0;
	}
	tp = bpf_skc_to_tcp_sock(sk);
	if (old == TCP_SYN_SENT && new == TCP_CLOSE)
		thread_gives_up(sk);
	if (old == TCP_SYN_SENT && new == TCP_ESTABLISHED && tp)
		thread_is_connected(sk, tp);
	if (new == TCP_ESTABLISHED) {
		if (is_watched_port(sk->__sk_common.skc_num) && (is_for_ports_alone() || old == TCP_SYN_RECV))
			open_connection(sk, tp, old == TCP_SYN_RECV);
		return 0;
	}
	c = connection_of(sk, false);
	if (!c || !tp)
		return 0;
	settle(c, tp, departed(tp, bpf_ktime_get_ns()));
	/* Whatever this end sends later (a FIN) is not part of an answer. */
	if (!c->is_unsent || new == TCP_CLOSE)
		close_turn(c, sk);
	if (new == TCP_CLOSE) {
		make_key(&key, (__u64)sk->__sk_common.skc_net.net, &c->ends);
		bpf_map_delete_elem(&flows, &key);
	}
	return 0;
}

#endif
