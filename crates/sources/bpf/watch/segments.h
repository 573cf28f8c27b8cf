/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The segments of sampled connections at the edge of the host's network stack.
 * These programs are attached only during sampling periods. */
#ifndef LAGTRACE_WATCH_SEGMENTS_H
#define LAGTRACE_WATCH_SEGMENTS_H

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD

/* Maximum time in ns between two sightings of one frame by different devices (a
 * bond and its port, a bridge). */
#define COPY_WITHIN 1000000

/* Maximum number of bytes in the ring up to which whole segments are added: half of it. */
#define MOST_WAITING (8 << 20)

/* Fills in the segment's first bytes, starting with its IP header at `offset`. The
 * record has room for `room` of them. */
static __always_inline void fill_segment(struct segment_record *r, struct sk_buff *skb, __u8 kind,
					 __u64 now, __u32 offset, __u32 len, __u32 wanted, const __u32 room)
{
	__u32 linear;

	if (wanted > len)
		wanted = len;
	/* The compiler must not leave out the check that the verifier needs. */
	asm volatile("" : "+r"(wanted));
	if (wanted > room)
		wanted = room;
	r->kind = kind;
	r->pad = 0;
	r->len = len;
	r->at = now;
	linear = skb->len - skb->data_len - offset;
	if (wanted > linear && bpf_dynptr_from_skb) {
		struct bpf_dynptr ptr;

		if (bpf_dynptr_from_skb(skb, 0, &ptr) ||
		    bpf_dynptr_read(r->bytes, wanted, &ptr, offset, 0))
			wanted = 0;
	} else {
		if (wanted > linear)
			wanted = linear;
		if (wanted > room)
			wanted = room;
		if (bpf_probe_read_kernel(r->bytes, wanted, skb->data + offset))
			wanted = 0;
	}
	r->captured = wanted;
}

/* Reports a segment in a record with room for `room` bytes of it. */
static __always_inline void hand_up_within(struct sk_buff *skb, __u8 kind, const struct flow *flow, __u64 now,
					   __u32 offset, __u32 len, __u32 wanted, const __u32 room)
{
	const __u32 size = __builtin_offsetof(struct segment_record, bytes) + room;
	struct segment_record *r = bpf_ringbuf_reserve(&records, size, 0);

	if (!r) {
		count(lost_records);
		return;
	}
	r->namespace = flow->namespace;
	r->terms = kind == RECORD_SEGMENT_OUT ? flow->own : flow->peer;
	fill_segment(r, skb, kind, now, offset, len, wanted, room);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void hand_up_segment(struct sk_buff *skb, __u8 kind, const struct flow *flow,
					    __u64 now, __u32 offset, __u32 len, __u32 wanted)
{
	/* Whole segments take much room, and smaller records are worth more. */
	if (flow->is_framed && config.request_bytes && bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < MOST_WAITING)
		wanted = len;
	if (wanted <= MAX_CAPTURED)
		hand_up_within(skb, kind, flow, now, offset, len, wanted, MAX_CAPTURED);
	else if (wanted <= MAX_CAPTURED_FRAMES)
		hand_up_within(skb, kind, flow, now, offset, len, wanted, MAX_CAPTURED_FRAMES);
	else if (wanted <= MAX_CAPTURED_MANY)
		hand_up_within(skb, kind, flow, now, offset, len, wanted, MAX_CAPTURED_MANY);
	else
		hand_up_within(skb, kind, flow, now, offset, len, wanted, MAX_CAPTURED_ALL);
}

/* Keeps the first segment of a request on a connection that is not yet known to
 * be watched: the connection has no socket, or no program has read from its
 * socket. */
static __always_inline void keep_segment(const struct key *key, struct sk_buff *skb, __u64 now, __u32 len,
					 __u32 header_len, __u32 seq)
{
	bool is_framed = shows_frames(skb, header_len, len - header_len);
	__u32 wanted = header_len + config.request_bytes;
	struct kept_segment *r;

	if (bpf_map_update_elem(&kept, key, &no_segment, BPF_ANY))
		return;
	r = bpf_map_lookup_elem(&kept, key);
	if (!r)
		return;
	if (of_tls_handshake(&r->tls, skb, header_len, len - header_len, seq, true) || is_framed)
		wanted = config.request_bytes ? len : header_len;
	fill_segment(&r->record, skb, RECORD_SEGMENT_IN, now, 0, len, wanted, MAX_KEPT);
}

/* Notes that data came on a connection that is not known yet, and was reported. Once the
 * connection is known, it counts as asked. Returns how many of the bytes belong to a
 * handshake. */
static __always_inline __u32 mark_reported(const struct key *key, struct sk_buff *skb, __u64 now, __u32 len,
					   __u32 header_len, __u32 seq)
{
	struct kept_segment *mark;

	if (bpf_map_update_elem(&kept, key, &no_segment, BPF_ANY))
		return 0;
	mark = bpf_map_lookup_elem(&kept, key);
	if (!mark)
		return 0;
	mark->record.at = now;
	mark->is_reported = 1;
	return of_tls_handshake(&mark->tls, skb, header_len, len - header_len, seq, true);
}

/* Returns true if another device showed the same frame within COPY_WITHIN. A
 * later frame can have the same address in memory, but it comes from the same
 * device. */
static __always_inline bool is_copy(struct sighting *last, const struct sk_buff *skb, __be32 seq, __u64 now)
{
	bool is_same = last->skb == (__u64)skb && last->seq == seq && last->dev != (__u64)skb->dev &&
		       now - last->at < COPY_WITHIN;

	last->at = now;
	last->skb = (__u64)skb;
	last->dev = (__u64)skb->dev;
	last->seq = seq;
	return is_same;
}

/* Returns how many bytes of a client's payload, which is as in follow(), belong to a
 * handshake. */
static __noinline __u32 belongs_to_tls_handshake(struct flow *flow, struct sk_buff *skb, __u32 offset, __u32 len,
					     __u32 seq)
{
	/* A client asks again when it has its first answer. */
	if (!flow->is_asked && flow->tls.phase == TLS_ANSWERING)
		flow->tls.phase = TLS_OVER;
	return of_tls_handshake(&flow->tls, skb, offset, len, seq, !flow->is_asked);
}

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

/* A segment for a watched connection arrives. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb)
{
	struct headers h;
	struct tcp_header tcp;
	struct ends ends = {};
	struct key key = {};
	struct flow stranger = {};
	struct flow *flow;
	__u32 header_len, wanted, len, before = 0;
	bool is_first_request = false;
	__u8 phase;
	__u64 now;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_probe_read_kernel(&h.v4, sizeof(h.v4), skb->data))
			return 0;
		/* IPv4 options do not occur in practice. */
		if (h.v4.version_ihl != 0x45 || h.v4.protocol != IPPROTO_TCP)
			return 0;
		tcp = h.v4.tcp;
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
	if (!is_watched_port(ends.local_port))
		return 0;
	make_key(&key, (__u64)skb->dev->nd_net.net, &ends);
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!is_sampled(flow ? flow->hash : hash_of(&key)))
		return 0;
	now = bpf_ktime_get_ns();
	if (flow && is_copy(&flow->last_in, skb, tcp.seq, now))
		return 0;

	/* The segment was merged by GRO and is longer than IP's length field can
	 * express. */
	if (len <= header_len)
		len = skb->len;
	wanted = header_len + (tcp.doff >> 4) * 4;
	if (flow && !flow->is_framed && !flow->is_client && len > wanted) {
		phase = flow->tls.phase;
		before = belongs_to_tls_handshake(flow, skb, wanted, len - wanted, bpf_ntohl(tcp.seq));
		is_first_request = phase < TLS_ANSWERING && flow->tls.phase == TLS_ANSWERING;
	}
	/* A segment of a handshake, or one that TCP ignores because the handshake is not
	 * over for it. */
	if (!flow && shows_handshakes() && is_watched_namespace(skb->dev->nd_net.net)) {
		stranger.namespace = BPF_CORE_READ(skb, dev, nd_net.net, ns.inum);
		stranger.is_ours = 1;
		if (len > wanted)
			before = mark_reported(&key, skb, now, len, wanted, bpf_ntohl(tcp.seq));
		flow = &stranger;
	}
	if (!flow || !flow->is_ours) {
		/* Without configured ports, an unknown connection may belong to any
		 * program of this host. */
		if (len > wanted && (flow ? !flow->is_asked : config.port_count))
			keep_segment(&key, skb, now, len, wanted, bpf_ntohl(tcp.seq));
		if (flow && len > wanted)
			flow->is_asked = 1;
		return 0;
	}
	if (len > wanted) {
		if (!flow->is_framed && !flow->is_client && !flow->is_asked && flow->unframed < MAX_UNFRAMED) {
			flow->unframed += 1;
			flow->is_framed = shows_frames(skb, wanted, len - wanted);
		}
		if (flow->is_client || !flow->is_asked || is_first_request)
			wanted += config.request_bytes;
		if (config.request_bytes)
			wanted += before;
		flow->is_asked = 1;
	}
	hand_up_segment(skb, RECORD_SEGMENT_IN, flow, now, 0, len, wanted);
	return 0;
}

/* Records the time at which a segment of an answer leaves its queues, and its
 * waiting time in them. TCP stamps each segment with the time at which its
 * pacing allows it to leave (`skb->tstamp` in __tcp_transmit_skb()), and
 * queueing disciplines keep this timestamp. If stacked devices have a queue
 * each, the last one counts. */
static __always_inline void note_departure(struct flow *flow, const struct sk_buff *skb, __u32 seq, __u32 end,
					   __u64 now)
{
	__u64 due = skb->tstamp;
	__u64 queued = due && due < now ? now - due : 0;

	if (flow->is_asked)
		flow->first_seq = seq;
	if (flow->is_asked || flow->first_seq == seq) {
		flow->first_left_at = now;
		flow->first_queued = queued;
	}
	/* A retransmission does not show when the bytes first left. */
	if (flow->left_at && (__s32)(end - flow->left_seq) < 0)
		return;
	flow->left_seq = end;
	flow->left_at = now;
	flow->queued = queued;
}

/* Reads the headers of a segment that leaves. Returns the offset of the IP header from
 * the packet's data; -1 if there is none of TCP. Below a tunnel's device, the segment
 * is inside another packet; it was seen above that device. */
static __always_inline int read_headers(const struct sk_buff *skb, struct headers *h, struct tcp_header *tcp)
{
	__u32 offset;

	if (bpf_probe_read_kernel(h, __builtin_offsetof(struct headers, v4.source), skb->head + skb->network_header) ||
	    bpf_probe_read_kernel(tcp, sizeof(*tcp), skb->head + skb->transport_header))
		return -1;
	if ((h->v4.version_ihl >> 4 == 4 ? h->v4.protocol : h->v6.next) != IPPROTO_TCP)
		return -1;
	offset = skb->head + skb->network_header - skb->data;
	return offset > 256 ? -1 : (int)offset;
}

/* Reports the answer to a SYN, or the reset that refuses a segment. The connection has no
 * socket of its own. */
static __always_inline void hand_up_answer(struct sk_buff *skb)
{
	struct flow stranger = {};
	struct tcp_header tcp;
	struct headers h;
	int offset;

	if (!shows_handshakes() || !is_watched_namespace(skb->dev->nd_net.net))
		return;
	offset = read_headers(skb, &h, &tcp);
	if (offset < 0 || !(tcp.flags & (FLAG_SYN | FLAG_RST)) || !is_watched_port(bpf_ntohs(tcp.source)))
		return;
	stranger.namespace = BPF_CORE_READ(skb, dev, nd_net.net, ns.inum);
	hand_up_within(skb, RECORD_SEGMENT_OUT, &stranger, bpf_ktime_get_ns(), offset, skb->len - offset,
		       skb->transport_header - skb->network_header + (tcp.doff >> 4) * 4, MAX_CAPTURED);
}

/* Returns how many bytes are kept of what the server sends during a handshake, of `len`.
 * A program may read the first request together with the Finished, and then send tickets
 * before the answer, so both are kept until the client asks again. */
static __always_inline __u32 kept_of_tls_handshake(const struct tls_state *h, __u32 len)
{
	if (!config.response_bytes || h->phase == TLS_NONE || h->phase == TLS_OVER)
		return 0;
	return h->phase < TLS_ANSWERING || len < MAX_CAPTURED_FRAMES ? len : MAX_CAPTURED_FRAMES;
}

/* The device's driver receives a segment, which has passed all queues. Captures
 * see it at the same point. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(net_dev_start_xmit, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct tcp_header tcp;
	struct headers h;
	struct ends ends = {};
	struct key key = {};
	struct flow *flow;
	__u32 wanted, len, seq, kept;
	int offset;
	__u64 now;
	unsigned char state;

	/* A SYN cookie has no socket. A reset without a connection comes from a raw socket of
	 * the kernel, whose port is the protocol's number. */
	if (!sk || sk->__sk_common.skc_num == IPPROTO_TCP)
		hand_up_answer(skb);
	if (!sk || !is_watched_port(sk->__sk_common.skc_num))
		return 0;
	/* In some of these states, the kernel has only a small socket without most
	 * fields (struct request_sock, struct inet_timewait_sock). */
	state = sk->__sk_common.skc_state;
	if (state == TCP_NEW_SYN_RECV)
		hand_up_answer(skb);
	if (state == TCP_SYN_SENT || state == TCP_SYN_RECV || state == TCP_NEW_SYN_RECV || state == TCP_TIME_WAIT)
		return 0;
	if (sk->sk_protocol != IPPROTO_TCP || !ends_of(sk, &ends))
		return 0;
	make_key(&key, (__u64)sk->__sk_common.skc_net.net, &ends);
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow || !flow->is_ours || !is_sampled(flow->hash))
		return 0;
	offset = read_headers(skb, &h, &tcp);
	if (offset < 0)
		return 0;
	now = bpf_ktime_get_ns();
	len = skb->len - offset;
	seq = bpf_ntohl(tcp.seq);
	wanted = skb->transport_header - skb->network_header + (tcp.doff >> 4) * 4;
	if (len > wanted)
		note_departure(flow, skb, seq, seq + (len - wanted), now);
	if (is_copy(&flow->last_out, skb, tcp.seq, now))
		return 0;
	if (flow->is_framed && len > wanted)
		hand_up_left(&ends, now, seq, seq + (len - wanted), flow->queued);

	if (len > wanted) {
		kept = kept_of_tls_handshake(&flow->tls, len);
		if (flow->is_client || flow->is_asked)
			wanted += config.response_bytes;
		if (kept > wanted)
			wanted = kept;
		flow->is_asked = 0;
	}
	hand_up_segment(skb, RECORD_SEGMENT_OUT, flow, now, offset, len, wanted);
	return 0;
}

#endif
