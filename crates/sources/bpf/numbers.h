/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The numbers of processes and threads as lagtrace's own PID namespace has them. In a
 * container, the kernel's own numbers mean other processes, or none.
 *
 * Included after the kernel structures.
 */
#ifndef LAGTRACE_NUMBERS_H
#define LAGTRACE_NUMBERS_H

/* Maximum depth of PID namespaces (MAX_PID_NS_LEVEL in linux/pid_namespace.h). */
#define MOST_LEVELS 32

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

#pragma clang attribute pop

/* Returns the number in a PID namespace; 0 if it has none there. */
static __noinline __u32 number_in(struct pid *pid, __u32 namespace)
{
	__u32 level = BPF_CORE_READ(pid, level);
	char *numbers = (char *)pid + bpf_core_field_offset(struct pid, numbers);

	for (__u32 i = 0; i <= MOST_LEVELS; i++) {
		struct upid *one = (struct upid *)(numbers + i * bpf_core_type_size(struct upid));

		if (i > level)
			break;
		if (BPF_CORE_READ(one, ns, ns.inum) == namespace)
			return BPF_CORE_READ(one, nr);
	}
	return 0;
}

/* Returns the numbers of the current process (upper half) and thread (lower half) in a
 * PID namespace, given by its inode; 0: the initial namespace. A process that is not in
 * the namespace keeps the kernel's own numbers, by which the host knows it. */
static __always_inline __u64 current_numbers(__u32 namespace)
{
	struct task_struct *task;
	__u32 tgid, tid;

	if (!namespace)
		return bpf_get_current_pid_tgid();
	task = (void *)bpf_get_current_task();
	tgid = number_in(BPF_CORE_READ(task, group_leader, thread_pid), namespace);
	if (!tgid)
		return bpf_get_current_pid_tgid();
	tid = number_in(BPF_CORE_READ(task, thread_pid), namespace);
	return (__u64)tgid << 32 | tid;
}

#endif
