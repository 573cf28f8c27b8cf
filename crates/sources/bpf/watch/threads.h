/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Times of the answering threads: waiting for a processor, asleep, and waiting
 * for other services. These programs are attached only during sampling periods. */
#ifndef LAGTRACE_WATCH_THREADS_H
#define LAGTRACE_WATCH_THREADS_H

/* Number of periods without a processor that are kept for each thread (a power
 * of two), and the minimum length in ns of such a period. */
#define SPANS 8
#define NOTABLE_SPAN 20000
/* Maximum number of nested control groups that are searched for a quota. */
#define GROUPS 8
/* Minimum time in ns after which a datagram on the same socket is sent because the one
 * before got no answer. */
#define SOONEST_RETRY 250000000

struct span {
	__u64 from;
	__u64 to;
	/* The processor had been idle before the thread ran on it, and no quota applied. */
	__u64 is_waking;
};

/* A thread that reads from watched connections. Times are CLOCK_MONOTONIC in ns. */
struct thread {
	/* The sampling period in which these values were collected. Values of an earlier
	 * one are stale. */
	__u32 look;
	/* Number of requests that the thread has read and not begun to answer. */
	__u32 open;
	/* Times when the thread left the processor, and when it became runnable again;
	 * 0: it did not. */
	__u64 off_since;
	__u64 ready_since;
	/* Periods in which the thread was runnable without a processor: the latest ones
	 * of at least NOTABLE_SPAN, and the sum of all (`queued`). */
	struct span spans[SPANS];
	__u32 next_span;
	__u64 queued;
	/* The part of `queued` that ended on an idle processor. */
	__u64 waking;
	/* Total time asleep. */
	__u64 slept;
	/* The request that the thread works for: the socket that it came from (0: not
	 * known), and the service that it waited for longest. */
	__u64 serves;
	struct asked asked;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* The latest call to another service over a socket. A thread with many requests, or
 * another thread, that reads the answer works for the same request from then on. If
 * that guess is wrong, the thread's next write goes to another request's socket, and
 * nothing is counted. */
struct call {
	__u32 look;
	/* The socket was connected for the request, and nothing is written yet. */
	__u32 is_connecting;
	__u64 serves;
	/* Time of the last write, or of connecting; 0: it is answered. */
	__u64 asked_at;
	/* The service that the request waited for longest before. */
	struct asked asked;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

static __always_inline __u32 current_look(void)
{
	struct watch_control *now = bpf_map_lookup_elem(&control, &zero);

	return now ? now->look : 0;
}

/* Returns the current thread's state, if it belongs to this sampling period. */
static __always_inline struct thread *this_thread(__u32 look, bool may_make)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
						may_make ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);

	if (!t || t->look == look)
		return t;
	if (!may_make)
		return 0;
	*t = (struct thread){ .look = look };
	return t;
}

/* Returns the length of the part that both intervals have in common. */
static __always_inline __u64 overlap(__u64 from, __u64 to, __u64 other_from, __u64 other_to)
{
	__u64 begin = from > other_from ? from : other_from;
	__u64 end = to < other_to ? to : other_to;

	return end > begin ? end - begin : 0;
}

/* Determines how long the thread was runnable without a processor while the
 * request waited to be read. */
static __always_inline void note_unread(struct connection *c, const struct thread *t)
{
	c->queued_unread = c->waking_unread = 0;
	for (int i = 0; i < SPANS; i++) {
		const struct span *span = &t->spans[i];
		__u64 queued = overlap(c->delivered_at, c->read_at, span->from, span->to);

		c->queued_unread += queued;
		if (span->is_waking)
			c->waking_unread += queued;
	}
}

/* The thread begins to read the request. */
static __always_inline void thread_reads(struct connection *c, const struct sock *sk)
{
	__u32 look = current_look();
	struct thread *t;

	c->look = 0;
	if (!look)
		return;
	t = this_thread(look, true);
	if (!t)
		return;
	c->look = look;
	note_unread(c, t);
	c->queued_before = t->queued;
	c->waking_before = t->waking;
	c->slept_before = t->slept;
	c->queued = c->waking = c->slept = 0;
	t->open += 1;
	t->serves = (__u64)sk;
	t->asked.took = 0;
}

/* The first part of the answer is written. The time that the request waited for other
 * services is known if the thread works for this request. */
static __always_inline void note_asked(struct connection *c, const struct sock *sk)
{
	__u32 look = current_look();
	struct thread *t = look ? this_thread(look, false) : 0;

	if (!t || t->serves != (__u64)sk)
		return;
	c->asked = t->asked;
	t->serves = 0;
}

/* The thread has written a part of the answer. `is_first` is true for the first
 * part. */
static __always_inline void thread_writes(struct connection *c, bool is_first)
{
	__u32 look = current_look();
	struct thread *t;

	if (!c->look)
		return;
	t = c->look == look && c->tid == (__u32)current_numbers(config.pid_namespace) ? this_thread(look, false) : 0;
	if (!t) {
		/* Another thread answers, or the sampling period has ended, so the times
		 * of the reading thread do not explain the exchange. */
		c->look = 0;
		return;
	}
	c->queued = t->queued - c->queued_before;
	c->waking = t->waking - c->waking_before;
	c->slept = t->slept - c->slept_before;
	if (is_first && t->open)
		t->open -= 1;
}

/* The thread connects a socket to another service. */
static __always_inline void thread_connects(struct sock *sk)
{
	__u32 look = current_look();
	struct thread *t = look ? this_thread(look, false) : 0;
	struct call *call;

	if (!t || !t->serves)
		return;
	call = bpf_sk_storage_get(&calls, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!call)
		return;
	call->look = look;
	call->is_connecting = 1;
	call->serves = t->serves;
	call->asked = t->asked;
	call->asked_at = bpf_ktime_get_ns();
}

static __always_inline bool is_same_service(const struct ends *a, const struct ends *b)
{
	return a->remote[0] == b->remote[0] && a->remote[1] == b->remote[1] && a->remote[2] == b->remote[2] &&
	       a->remote[3] == b->remote[3] && a->remote_port == b->remote_port && a->family == b->family &&
	       a->protocol == b->protocol;
}

/* Returns the smallest round trip that the socket measured in the last minutes, in
 * ns; 0: none, or it is not TCP. An ACK that comes with an answer makes it too long. */
static __always_inline __u64 way_of(struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u32 us = tp ? tp->rtt_min.s[0].v : 0;

	return us == ~0U ? 0 : us * 1000ULL;
}

/* The wait for a call has ended. Of several services that a request calls one after the
 * other, the one that it waits for longest counts; the waits for it add up. Returns its
 * calls; 0 if it is another service. */
static __always_inline struct asked *note_waited(struct call *call, struct sock *sk, bool was_silent)
{
	__u64 took = bpf_ktime_get_ns() - call->asked_at, way = way_of(sk);
	struct asked *asked = &call->asked;
	struct ends ends = {};

	call->asked_at = 0;
	if (!ends_of(sk, &ends))
		ends.family = sk->__sk_common.skc_family;
	ends.protocol = sk->sk_protocol;
	if (!asked->took || !is_same_service(&ends, &asked->whom)) {
		if (took <= asked->took)
			return 0;
		*asked = (struct asked){ .whom = ends };
	}
	asked->took += took;
	if (was_silent)
		asked->silent += took;
	else
		asked->way += way < took ? way : took;
	return asked;
}

/* The connection of a call is made. Its SYN was answered at once, or only when it was
 * repeated. */
static __always_inline void thread_is_connected(struct sock *sk, struct tcp_sock *tp)
{
	__u32 look = current_look();
	struct call *call = look ? bpf_sk_storage_get(&calls, sk, 0, 0) : 0;
	struct asked *asked;

	if (!call || call->look != look || !call->is_connecting || !call->asked_at)
		return;
	asked = note_waited(call, sk, tp->total_retrans);
	if (asked)
		asked->connections += 1;
	/* The other end may speak first. */
	call->asked_at = bpf_ktime_get_ns();
}

/* The thread closes a socket before its SYN was answered. */
static __always_inline void thread_gives_up(struct sock *sk)
{
	__u32 look = current_look();
	struct call *call = look ? bpf_sk_storage_get(&calls, sk, 0, 0) : 0;
	struct thread *t = look ? this_thread(look, false) : 0;

	/* A connection that ends for another reason is shut down only after this. */
	if (!t || !call || call->look != look || !call->asked_at || sk->sk_shutdown != SHUTDOWN_MASK)
		return;
	note_waited(call, sk, true);
	t->serves = call->serves;
	t->asked = call->asked;
}

/* The thread writes to another socket: it calls another service. */
static __always_inline void thread_asks(struct sock *sk)
{
	__u32 look = current_look();
	struct thread *t = look ? this_thread(look, false) : 0;
	bool is_for_request = t && t->serves;
	__u64 now = bpf_ktime_get_ns();
	struct call *call;

	if (!look)
		return;
	call = bpf_sk_storage_get(&calls, sk, 0, is_for_request ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!call)
		return;
	if (is_for_request && call->look == look && call->serves == t->serves && call->asked_at &&
	    sk->sk_protocol == IPPROTO_UDP && now - call->asked_at >= SOONEST_RETRY) {
		note_waited(call, sk, true);
		t->asked = call->asked;
	}
	/* Once the connection is made, the thread may work for another request. */
	if (call->look != look || !call->is_connecting) {
		call->look = look;
		call->serves = is_for_request ? t->serves : 0;
		if (is_for_request)
			call->asked = t->asked;
	}
	call->is_connecting = 0;
	call->asked_at = now;
}

/* The thread has read from another socket, perhaps the answer to a call. */
static __always_inline void thread_is_answered(struct sock *sk)
{
	__u32 look = current_look();
	struct call *call = look ? bpf_sk_storage_get(&calls, sk, 0, 0) : 0;
	bool is_call = call && call->look == look && call->serves;
	struct thread *t = look ? this_thread(look, is_call) : 0;
	struct asked *asked;

	if (!t)
		return;
	if (!is_call) {
		/* A thread with a single request goes on with it. */
		if (t->open != 1)
			t->serves = 0;
		return;
	}
	if (call->asked_at) {
		asked = note_waited(call, sk, false);
		if (asked)
			asked->calls += 1;
	}
	t->serves = call->serves;
	t->asked = call->asked;
}

/* A thread becomes runnable. This tracepoint runs on the processor of the waker.
 * The tracepoint sched_wakeup would run on the thread's own processor, after
 * that processor has left its idle state. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t && t->off_since)
		t->ready_since = bpf_ktime_get_ns();
	return 0;
}

/* Returns true if a quota can keep the thread off a processor that is idle
 * (kernel/sched/fair.c: throttle_cfs_rq()). */
static __always_inline bool has_quota(struct task_struct *task)
{
	struct sched_entity *group = task->se.parent;

	if (!bpf_core_field_exists(task->se.cfs_rq->runtime_enabled))
		return false;
	if (task->se.cfs_rq->runtime_enabled)
		return true;
#pragma unroll
	for (int i = 0; i < GROUPS && group; i++) {
		if (group->cfs_rq->runtime_enabled)
			return true;
		group = group->parent;
	}
	return false;
}

/* One thread leaves the processor and another one gets it. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct thread *t = bpf_task_storage_get(&threads, prev, 0, 0);
	__u64 now, ready;
	bool was_idle;

	if (t)
		t->off_since = bpf_ktime_get_ns();
	t = bpf_task_storage_get(&threads, next, 0, 0);
	if (!t || !t->off_since)
		return 0;
	now = bpf_ktime_get_ns();
	/* A thread that was not woken was preempted, and has been runnable all the time. */
	ready = t->ready_since ? t->ready_since : t->off_since;
	/* The idle thread of each processor has the PID 0. */
	was_idle = !prev->pid && !has_quota(next);
	if (now - ready >= NOTABLE_SPAN) {
		struct span *span = &t->spans[t->next_span++ % SPANS];

		span->from = ready;
		span->to = now;
		span->is_waking = was_idle;
	}
	t->queued += now - ready;
	if (was_idle)
		t->waking += now - ready;
	t->slept += ready - t->off_since;
	t->off_since = t->ready_since = 0;
	return 0;
}

#endif
