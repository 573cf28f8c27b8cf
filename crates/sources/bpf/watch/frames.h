/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Connections with HTTP/2. Their requests overtake each other, so they are not timed
 * as exchanges in turn. Instead, it is reported when which bytes passed which place
 * (in names: a passage through a gate). The analysis, which reads the frames, finds
 * the requests' bytes among them. */
#ifndef LAGTRACE_WATCH_FRAMES_H
#define LAGTRACE_WATCH_FRAMES_H

/* Length of a frame's header, and the default limit of a frame's length (RFC 9113). */
#define FRAME_HEADER 9
#define MAX_FRAME 16384
/* Types and flags of frames (RFC 9113, section 6). */
#define FRAME_DATA 0
#define FRAME_HEADERS 1
#define FRAME_RST_STREAM 3
#define FRAME_SETTINGS 4
#define FRAME_PING 6
#define FRAME_WINDOW_UPDATE 8
#define FLAG_END_HEADERS 0x04
#define FLAGS_OF_HEADERS 0x2d
#define FLAGS_OF_DATA 0x09
/* Maximum number of requests in which a frame is looked for. */
#define MAX_UNFRAMED 250
/* Maximum time in ns for which reads are reported as one, while they leave bytes in
 * the socket. */
#define LONGEST_READING 1000000

/* Available to tracepoints from kernel 6.12 on. Without it, only the headers and
 * the payload in the linear part of the skb are kept. */
extern int bpf_dynptr_from_skb(struct sk_buff *skb, __u64 flags, struct bpf_dynptr *ptr) __ksym __weak;

/* Reads `size` bytes at `offset` from the skb's data. */
static __always_inline bool read_bytes(struct sk_buff *skb, __u32 offset, __u8 *to, const __u32 size)
{
	struct bpf_dynptr ptr;

	if (offset + size <= skb->len - skb->data_len)
		return !bpf_probe_read_kernel(to, size, skb->data + offset);
	return bpf_dynptr_from_skb && !bpf_dynptr_from_skb(skb, 0, &ptr) &&
	       !bpf_dynptr_read(to, size, &ptr, offset, 0);
}

/* Reads a frame's header at `offset` from the skb's data. */
static __always_inline bool read_header(struct sk_buff *skb, __u32 offset, __u8 *header)
{
	return read_bytes(skb, offset, header, FRAME_HEADER);
}

static __always_inline __u32 frame_length(const __u8 *header)
{
	return (__u32)header[0] << 16 | (__u32)header[1] << 8 | header[2];
}

/* Returns true if a client may send this frame. */
static __always_inline bool is_frame(const __u8 *header)
{
	__u32 length = frame_length(header);
	__u8 type = header[3], flags = header[4];
	bool is_odd = header[8] & 1;
	bool is_zero = !(header[5] | header[6] | header[7] | header[8]);

	if (length > MAX_FRAME || header[5] & 0x80)
		return false;
	if (type == FRAME_HEADERS)
		return is_odd && length && flags & FLAG_END_HEADERS && !(flags & ~FLAGS_OF_HEADERS);
	if (type == FRAME_DATA)
		return is_odd && !(flags & ~FLAGS_OF_DATA);
	if (type == FRAME_SETTINGS)
		return is_zero && length % 6 == 0 && flags <= 1;
	if (type == FRAME_PING)
		return is_zero && length == 8 && flags <= 1;
	if (type == FRAME_WINDOW_UPDATE)
		return (is_odd || is_zero) && length == 4 && !flags;
	return type == FRAME_RST_STREAM && is_odd && length == 4 && !flags;
}

/* Returns true if a client's payload, of `len` bytes at `offset`, shows that the
 * connection uses HTTP/2: it begins with the preface, or with a frame that is alone or
 * followed by another one. */
static __always_inline bool shows_frames(struct sk_buff *skb, __u32 offset, __u32 len)
{
	static const char preface[] = "PRI * HTTP/2.0";
	__u8 header[FRAME_HEADER];
	bool is_preface = true;
	__u32 next;

	if (len < FRAME_HEADER || !read_header(skb, offset, header))
		return false;
	for (int i = 0; i < FRAME_HEADER; i++)
		is_preface = is_preface && header[i] == preface[i];
	if (is_preface)
		return true;
	if (!is_frame(header))
		return false;
	next = FRAME_HEADER + frame_length(header);
	if (next == len)
		return true;
	return next + FRAME_HEADER <= len && read_header(skb, offset + next, header) && is_frame(header);
}

/* Fills in the thread that reads or writes, and its times so far. */
static __always_inline void fill_thread(struct passage_record *r, struct connection *c)
{
	__u32 look = current_look();
	struct thread *t = look ? this_thread(look, true) : 0;
	__u64 id = current_numbers(config.pid_namespace);

	r->pid = id >> 32;
	r->tid = id;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	if (!t)
		return;
	r->has_thread = 1;
	r->queued = t->queued;
	r->waking = t->waking;
	r->slept = t->slept;
	if (r->gate == GATE_READ && c->delivered_at) {
		c->read_at = r->at;
		note_unread(c, t);
		r->queued_unread = c->queued_unread;
		r->waking_unread = c->waking_unread;
	}
}

static __always_inline struct passage_record *begin_passage(const struct ends *ends, __u8 gate, __u64 at,
							    __u32 start, __u32 end)
{
	struct passage_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r) {
		count(lost_records);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = RECORD_PASSAGE;
	r->gate = gate;
	r->ends = *ends;
	r->at = at;
	r->start_seq = start;
	r->end_seq = end;
	return r;
}

/* Reports that TCP received bytes. */
static __noinline void hand_up_delivered(struct connection *c, const struct tcp_skb_cb *cb, __u64 arrived_at,
					 __u64 entered_at, __u64 now)
{
	struct passage_record *r;

	if (!c->delivered_at)
		c->delivered_at = now;
	if (c->is_ours)
		count(frames);
	if (!is_sampled(c->hash))
		return;
	if (c->is_ours)
		count(sampled_frames);
	r = begin_passage(&c->ends, GATE_DELIVERED, now, cb->seq, cb->end_seq);
	if (!r)
		return;
	r->arrived_at = entered_at && entered_at < arrived_at ? entered_at : arrived_at;
	r->entered_at = entered_at;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Reports that the program has read or written bytes. */
static __always_inline void hand_up_call(struct connection *c, __u8 gate, __u64 at, __u32 start, __u32 end)
{
	struct passage_record *r;

	if (!is_sampled(c->hash))
		return;
	r = begin_passage(&c->ends, gate, at, start, end);
	if (!r)
		return;
	fill_thread(r, c);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Reports that TCP sent the bytes up to `end`, with the time for which Nagle's algorithm
 * held them back. */
static __always_inline void hand_up_sent(const struct connection *c, __u64 at, __u32 end)
{
	struct passage_record *r = begin_passage(&c->ends, GATE_SENT, at, c->sent_seq, end);

	if (!r)
		return;
	if (c->held_since && (__s32)(end - c->held_seq) > 0 && at > c->held_since) {
		r->held = at - c->held_since;
		r->is_acked = c->last_in_at > c->held_since;
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Reports that a segment left its queues, after it waited in them for `queued`. */
static __always_inline void hand_up_left(const struct ends *ends, __u64 at, __u32 start, __u32 end, __u64 queued)
{
	struct passage_record *r = begin_passage(ends, GATE_LEFT, at, start, end);

	if (!r)
		return;
	r->queued = queued;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Reports the reads of an HTTP/2 connection up to `end`. */
static __always_inline void end_reading(struct connection *c, __u32 end)
{
	if (!c->reading_since)
		return;
	hand_up_call(c, GATE_READ, c->last_read_at, c->read_seq, end);
	c->reading_since = c->delivered_at = 0;
}

/* The program has read `len` bytes of an HTTP/2 connection. A program that reads in
 * small parts what has arrived at once has one read for the analysis. */
static __always_inline void note_reading(struct connection *c, const struct tcp_sock *tp, __u32 len)
{
	__u64 now = bpf_ktime_get_ns();

	if (!c->reading_since) {
		c->reading_since = now;
		c->read_seq = tp->copied_seq - len;
	}
	c->last_read_at = now;
	if (tp->copied_seq == tp->rcv_nxt || now - c->reading_since > LONGEST_READING)
		end_reading(c, tp->copied_seq);
}

/* The program has written `len` bytes of an HTTP/2 connection. What it has read by
 * then is reported first, because it may be the request. */
static __always_inline void note_writing(struct connection *c, const struct tcp_sock *tp, __u32 len, __u64 now)
{
	end_reading(c, tp->copied_seq);
	hand_up_call(c, GATE_WRITTEN, now, tp->write_seq - len, tp->write_seq);
}

/* The connection turns out to use HTTP/2. */
static __always_inline void begin_frames(struct connection *c, const struct sock *sk)
{
	struct key key = {};
	struct flow *flow;

	c->is_framed = 1;
	c->is_fresh = 0;
	c->arrived_at = c->delivered_at = 0;
	c->held_since = c->reading_since = 0;
	make_key(&key, (__u64)sk->__sk_common.skc_net.net, &c->ends);
	flow = bpf_map_lookup_elem(&flows, &key);
	if (flow)
		flow->is_framed = 1;
}

#endif
