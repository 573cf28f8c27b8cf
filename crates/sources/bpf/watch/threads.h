/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What the threads that answer do meanwhile: wait for a processor, sleep, ask
 * others. These programs are attached only while there is room for them. */
#ifndef LAGTRACE_WATCH_THREADS_H
#define LAGTRACE_WATCH_THREADS_H

/* Times without a processor that are kept of a thread, and from which length
 * on, in ns: a power of two of them. */
#define SPANS 8
#define NOTABLE_SPAN 20000
/* Control groups within each other that are looked at for a quota. */
#define GROUPS 8

struct span {
	__u64 from;
	__u64 to;
	/* Its processor was idle, and had to wake. */
	__u64 is_waking;
};

/* A thread that reads what watched connections bring. Times are
 * CLOCK_MONOTONIC in ns. */
struct thread {
	/* The look in which this was learned; what is of another one is stale. */
	__u32 look;
	/* Requests that it has read and not begun to answer. */
	__u32 open;
	/* Off the processor since, and ready again since; 0: it is not. */
	__u64 off_since;
	__u64 ready_since;
	/* Ready and without a processor: the latest notable times, and the sum of
	 * all. */
	struct span spans[SPANS];
	__u32 next_span;
	__u64 queued;
	/* Of that, with its processor idle. */
	__u64 waking;
	/* Asleep, in all. */
	__u64 slept;
	/* What it asked others for the one request that it had read. */
	__u64 asked_socket;
	__u64 asked_at;
	__u64 asked_for;
	struct ends asked;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

static __always_inline __u32 current_look(void)
{
	struct watch_control *now = bpf_map_lookup_elem(&control, &zero);

	return now ? now->look : 0;
}

/* The current thread, if it is looked at. */
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

/* How much of the time from `from` to `to` lies between the other two. */
static __always_inline __u64 overlap(__u64 from, __u64 to, __u64 other_from, __u64 other_to)
{
	__u64 begin = from > other_from ? from : other_from;
	__u64 end = to < other_to ? to : other_to;

	return end > begin ? end - begin : 0;
}

/* Which part of the turn's time before its request was read the thread was
 * ready for. */
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

/* The thread has begun to read the turn's request. */
static __always_inline void thread_reads(struct connection *c)
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
	c->queued = c->waking = c->slept = c->asked_for = 0;
	t->open += 1;
	t->asked_for = 0;
	t->asked_socket = 0;
}

/* The thread has written of the turn's answer, not for the first time if
 * `is_first` is not set. */
static __always_inline void thread_writes(struct connection *c, bool is_first)
{
	__u32 look = current_look();
	struct thread *t;

	if (!c->look)
		return;
	t = c->look == look && c->tid == (__u32)bpf_get_current_pid_tgid() ? this_thread(look, false) : 0;
	if (!t) {
		/* Another thread answers: what this one did meanwhile says nothing. */
		c->look = 0;
		return;
	}
	c->queued = t->queued - c->queued_before;
	c->waking = t->waking - c->waking_before;
	c->slept = t->slept - c->slept_before;
	/* Of several requests it is not known for which it asked. */
	if (t->open == 1 && t->asked_for) {
		c->asked_for = t->asked_for;
		c->asked = t->asked;
	}
	if (is_first && t->open)
		t->open -= 1;
}

/* A thread that has read a request writes to another socket: it asks somebody. */
static __always_inline void thread_asks(struct sock *sk)
{
	__u32 look = current_look();
	struct thread *t = look ? this_thread(look, false) : 0;

	if (!t || t->open != 1)
		return;
	t->asked_socket = (__u64)sk;
	t->asked_at = bpf_ktime_get_ns();
}

/* It has read what the other one answered. */
static __always_inline void thread_is_answered(struct sock *sk)
{
	__u32 look = current_look();
	struct thread *t = look ? this_thread(look, false) : 0;

	if (!t || t->open != 1 || t->asked_socket != (__u64)sk)
		return;
	t->asked_for += bpf_ktime_get_ns() - t->asked_at;
	t->asked_socket = 0;
	if (!ends_of(sk, &t->asked))
		t->asked.family = sk->__sk_common.skc_family;
	t->asked.protocol = sk->sk_protocol;
}

/* A thread is ready to run again. Seen by who wakes it (sched_wakeup would be
 * seen by the processor that is to run it, once that has woken itself). */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t && t->off_since)
		t->ready_since = bpf_ktime_get_ns();
	return 0;
}

/* Whether a quota may keep the thread off a processor that has nothing else to
 * do (kernel/sched/fair.c: throttle_cfs_rq()). */
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

/* One leaves the processor, and another one gets it. */
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
	/* One that nobody woke was ready all the time. */
	ready = t->ready_since ? t->ready_since : t->off_since;
	/* The idle thread of each processor has the number 0. */
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
