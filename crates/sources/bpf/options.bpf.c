// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Observes the system calls that set up sockets: which program set which option of which
 * connection, to which value, and which value the kernel then used. The programs are
 * attached only to the tracepoints of these system calls. They change nothing and stop no
 * thread.
 *
 * The beginning of a call is recorded, because the program may overwrite the value during
 * the call. When the call ends, it is reported with its result. The socket is determined
 * during the call, because the descriptor may refer to another socket soon afterwards.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "socket_types.h"
#include "numbers.h"
#include "options.h"

#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define EFAULT 14

#define SOL_SOCKET 1
#define SO_SNDBUF 7
#define SO_RCVBUF 8
#define SO_KEEPALIVE 9
#define SO_SNDBUFFORCE 32
#define SO_RCVBUFFORCE 33
#define SOL_TCP 6
#define TCP_NODELAY 1
#define TCP_CORK 3
#define TCP_MD5SIG 14
#define TCP_USER_TIMEOUT 18
#define TCP_NOTSENT_LOWAT 25
#define TCP_FASTOPEN_KEY 33
#define TCP_MD5SIG_EXT 32
#define TCP_AO_ADD_KEY 38
#define SOL_ALG 279
#define SOL_TLS 282
#define SOL_SCTP 132
#define SCTP_AUTH_KEY 23

/* Bits of tcp_sock.nonagle. */
#define TCP_NAGLE_OFF 1
#define TCP_NAGLE_CORK 2

/* Bits of sock.sk_userlocks: the program set the buffer's size, which the kernel
 * no longer tunes. */
#define SOCK_SNDBUF_LOCK 1
#define SOCK_RCVBUF_LOCK 2

/* Maximum depth at which a process's control group is searched for in `groups`. */
#define MAX_DEPTH 16
/* Maximum number of calls in progress. */
#define MAX_OPEN 16384

const volatile struct call_config config SEC(".rodata.config") = {};

/* Calls in progress, by thread. A thread that is killed within a call leaves an
 * entry here. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_OPEN);
	__type(key, __u32);
	__type(value, struct call_record);
} open_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PIDS);
	__type(key, __u32);
	__type(value, __u8);
} pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u8);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct call_tally);
} tallies SEC(".maps");

/* A record is built here because it is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct call_record);
} scratch SEC(".maps");

static const __u32 zero = 0;

static __always_inline bool is_in_groups(void)
{
	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		__u64 group = bpf_get_current_ancestor_cgroup_id(depth);

		if (!group)
			return false;
		if (bpf_map_lookup_elem(&groups, &group))
			return true;
	}
	return false;
}

static __always_inline bool is_meant_process(__u32 tgid)
{
	if (config.is_by_pid && !bpf_map_lookup_elem(&pids, &tgid))
		return false;
	return !config.is_by_group || is_in_groups();
}

static __always_inline bool is_meant_port(__u16 port)
{
	for (__u32 i = 0; i < MAX_PORTS; i++) {
		if (i >= config.port_count)
			break;
		if (config.ports[i] == port)
			return true;
	}
	return false;
}

/* Returns the socket of a descriptor of this process; 0 if the descriptor is
 * closed or not a socket. */
static __always_inline struct socket *socket_of(__s32 fd)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	struct socket *socket;
	struct file *file;

	if (fd < 0 || (__u32)fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	if (bpf_probe_read_kernel(&file, sizeof(file), &files[fd]) || !file)
		return 0;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	/* A Unix socket's file in the file system has the same mode, but is not a
	 * socket. */
	return socket && BPF_CORE_READ(socket, file) == file ? socket : 0;
}

static __always_inline void note_ends(struct call_record *call, struct sock *sk)
{
	call->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	call->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (call->family == AF_INET) {
		call->local[0] = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
		call->remote[0] = BPF_CORE_READ(sk, __sk_common.skc_daddr);
		return;
	}
	BPF_CORE_READ_INTO(&call->local, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32);
	BPF_CORE_READ_INTO(&call->remote, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32);
}

static __always_inline bool is_tcp(const struct call_record *call)
{
	return (call->family == AF_INET || call->family == AF_INET6) && call->type == SOCK_STREAM &&
	       call->protocol == IPPROTO_TCP;
}

/* Returns true if connect() chose the local port, as it does for clients. Only
 * then is `fastreuse` negative (__inet_hash_connect()). */
static __always_inline bool is_port_chosen(struct sock *sk)
{
	struct inet_bind_bucket *bucket = BPF_CORE_READ((struct inet_connection_sock *)sk, icsk_bind_hash);

	return bucket && BPF_CORE_READ(bucket, fastreuse) < 0;
}

static __always_inline void note_socket(struct call_record *call, struct socket *socket)
{
	struct sock *sk = BPF_CORE_READ(socket, sk);

	if (!sk)
		return;
	call->flags |= CALL_HAS_SOCKET;
	call->inode = BPF_CORE_READ(socket, file, f_inode, i_ino);
	call->cookie = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
	call->namespace = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	call->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	call->state = BPF_CORE_READ(sk, __sk_common.skc_state);
	call->type = BPF_CORE_READ(sk, sk_type);
	call->protocol = BPF_CORE_READ(sk, sk_protocol);
	if (call->family == AF_INET || call->family == AF_INET6)
		note_ends(call, sk);
	if (is_tcp(call) && is_port_chosen(sk))
		call->flags |= CALL_IS_CLIENT;
}

/* Returns the options that an accepted socket has from its listener. */
static __always_inline __s64 inherited(struct sock *sk)
{
	__u8 nonagle = BPF_CORE_READ_BITFIELD_PROBED((struct tcp_sock *)sk, nonagle);
	__u8 locks = BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks);

	return (nonagle & TCP_NAGLE_OFF ? INHERITED_NODELAY : 0) |
	       (nonagle & TCP_NAGLE_CORK ? INHERITED_CORK : 0) |
	       (locks & SOCK_SNDBUF_LOCK ? INHERITED_SNDBUF : 0) |
	       (locks & SOCK_RCVBUF_LOCK ? INHERITED_RCVBUF : 0);
}

/* Reads the kernel's current value for this option; returns false if no field of
 * the socket contains it. */
static __always_inline bool standing(const struct call_record *call, struct sock *sk, __s64 *value)
{
	if (call->kind == CALL_LISTEN || (call->kind == CALL_ACCEPT && call->state == TCP_LISTEN)) {
		*value = BPF_CORE_READ(sk, sk_max_ack_backlog);
		return true;
	}
	if (call->kind != CALL_SETSOCKOPT)
		return false;
	if (call->level == SOL_SOCKET) {
		switch (call->option) {
		case SO_SNDBUF:
		case SO_SNDBUFFORCE:
			*value = BPF_CORE_READ(sk, sk_sndbuf);
			return true;
		case SO_RCVBUF:
		case SO_RCVBUFFORCE:
			*value = BPF_CORE_READ(sk, sk_rcvbuf);
			return true;
		case SO_KEEPALIVE:
			*value = BPF_CORE_READ(sk, __sk_common.skc_flags) >>
					 bpf_core_enum_value(enum sock_flags, SOCK_KEEPOPEN) &
				 1;
			return true;
		}
		return false;
	}
	if (call->level != SOL_TCP || !is_tcp(call))
		return false;
	switch (call->option) {
	case TCP_NODELAY:
		*value = !!(BPF_CORE_READ_BITFIELD_PROBED((struct tcp_sock *)sk, nonagle) & TCP_NAGLE_OFF);
		return true;
	case TCP_CORK:
		*value = !!(BPF_CORE_READ_BITFIELD_PROBED((struct tcp_sock *)sk, nonagle) & TCP_NAGLE_CORK);
		return true;
	case TCP_USER_TIMEOUT:
		*value = BPF_CORE_READ((struct inet_connection_sock *)sk, icsk_user_timeout);
		return true;
	case TCP_NOTSENT_LOWAT:
		*value = BPF_CORE_READ((struct tcp_sock *)sk, notsent_lowat);
		return true;
	}
	return false;
}

/* Returns true if the option's value is a key, which must not be read. */
static __always_inline bool is_secret(__s32 level, __s32 option)
{
	if (level == SOL_TLS || level == SOL_ALG)
		return true;
	if (level == SOL_SCTP)
		return option == SCTP_AUTH_KEY;
	return level == SOL_TCP && (option == TCP_MD5SIG || option == TCP_MD5SIG_EXT ||
				    option == TCP_FASTOPEN_KEY || option == TCP_AO_ADD_KEY);
}

/* Copies the value, up to MAX_VALUE bytes. Copies nothing if a part of it cannot
 * be read. */
static __always_inline void copy_value(struct call_record *call)
{
	__u32 wanted = call->len;

	if (call->len <= 0 || !call->pointer || call->flags & CALL_IS_SECRET)
		return;
	if (wanted > MAX_VALUE)
		wanted = MAX_VALUE;
	if (!bpf_probe_read_user(call->value, wanted, (void *)call->pointer))
		call->copied = wanted;
}

static __always_inline bool has_meant_port(const struct call_record *call)
{
	if (!config.port_count)
		return true;
	if (!(call->flags & CALL_HAS_SOCKET))
		return false;
	/* A socket that is not connected yet may be bound or connected to a requested
	 * port later. */
	if (call->state == TCP_CLOSE && !call->remote_port)
		return call->family == AF_INET || call->family == AF_INET6;
	return is_meant_port(call->local_port) || is_meant_port(call->remote_port);
}

/* Adds what only TCP sockets have: the bytes that were sent before an option was
 * set, and the settings of a listener. */
static __always_inline void note_tcp(struct call_record *call, struct sock *sk)
{
	struct inet_connection_sock *icsk = (void *)sk;

	if (call->kind == CALL_SETSOCKOPT)
		call->sent = BPF_CORE_READ((struct tcp_sock *)sk, bytes_sent);
	if (call->kind != CALL_ACCEPT)
		return;
	call->level = BPF_CORE_READ(icsk, icsk_accept_queue.rskq_defer_accept);
	call->option = BPF_CORE_READ(icsk, icsk_accept_queue.fastopenq.max_qlen);
}

/* Records the beginning of a call. */
static __noinline int begin(__u8 kind, struct trace_event_raw_sys_enter *ctx)
{
	struct call_record *call = bpf_map_lookup_elem(&scratch, &zero);
	__u64 id = current_numbers(config.pid_namespace);
	struct task_struct *task;
	struct socket *socket;
	__u32 tid = bpf_get_current_pid_tgid();

	if (!call || !is_meant_process(id >> 32))
		return 0;
	__builtin_memset(call, 0, sizeof(*call));
	call->kind = kind;
	call->fd = BPF_CORE_READ(ctx, args[0]);
	if (kind == CALL_BIND || kind == CALL_CONNECT) {
		call->pointer = BPF_CORE_READ(ctx, args[1]);
		call->len = BPF_CORE_READ(ctx, args[2]);
	} else if (kind != CALL_ACCEPT) {
		call->level = BPF_CORE_READ(ctx, args[1]);
	}
	if (kind == CALL_SETSOCKOPT) {
		call->option = BPF_CORE_READ(ctx, args[2]);
		call->pointer = BPF_CORE_READ(ctx, args[3]);
		call->len = BPF_CORE_READ(ctx, args[4]);
		if (is_secret(call->level, call->option))
			call->flags |= CALL_IS_SECRET;
	}
	socket = socket_of(call->fd);
	if (socket) {
		note_socket(call, socket);
		if (standing(call, BPF_CORE_READ(socket, sk), &call->before))
			call->flags |= CALL_HAS_BEFORE;
		if (is_tcp(call))
			note_tcp(call, BPF_CORE_READ(socket, sk));
	}
	/* These two calls can set a port. */
	if (kind != CALL_BIND && kind != CALL_CONNECT && !has_meant_port(call))
		return 0;
	copy_value(call);
	call->pid = id >> 32;
	call->tid = id;
	task = (void *)bpf_get_current_task();
	bpf_get_current_comm(call->thread, sizeof(call->thread));
	BPF_CORE_READ_STR_INTO(&call->comm, task, group_leader, comm);
	call->entered_at = bpf_ktime_get_ns();
	bpf_map_update_elem(&open_calls, &tid, call, BPF_ANY);
	return 0;
}

static __always_inline void count(bool is_lost)
{
	struct call_tally *tally = bpf_map_lookup_elem(&tallies, &zero);

	if (!tally)
		return;
	tally->calls += 1;
	tally->lost += is_lost;
}

/* Replaces the listener in the record by the accepted socket. */
static __always_inline void note_accepted(struct call_record *call)
{
	struct socket *socket = socket_of(call->result);

	call->flags &= ~CALL_HAS_SOCKET;
	if (!socket)
		return;
	note_socket(call, socket);
	if (!is_tcp(call))
		return;
	call->after = inherited(BPF_CORE_READ(socket, sk));
	call->flags |= CALL_HAS_AFTER;
}

/* Reports a call that ends. */
static __noinline int end(struct trace_event_raw_sys_exit *ctx)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct call_record *call = bpf_map_lookup_elem(&open_calls, &tid);
	struct socket *socket;
	long result;

	if (!call)
		return 0;
	result = BPF_CORE_READ(ctx, ret);
	call->left_at = bpf_ktime_get_ns();
	call->result = result;
	if (call->kind == CALL_ACCEPT) {
		/* No connection was accepted: nothing is reported. */
		if (result >= 0) {
			note_accepted(call);
			count(bpf_ringbuf_output(&records, call, sizeof(*call), BPF_RB_NO_WAKEUP) != 0);
		}
		bpf_map_delete_elem(&open_calls, &tid);
		return 0;
	}
	socket = socket_of(call->fd);
	/* Another thread may have closed the socket and opened another one with the same
	 * descriptor. */
	if (socket && call->inode == BPF_CORE_READ(socket, file, f_inode, i_ino)) {
		/* Setting an option changes neither the socket's addresses nor its
		 * state. */
		if (call->kind != CALL_SETSOCKOPT)
			note_socket(call, socket);
		if (standing(call, BPF_CORE_READ(socket, sk), &call->after))
			call->flags |= CALL_HAS_AFTER;
	}
	/* The value's page was not in memory when the call began. The kernel has read it
	 * since. */
	if (!call->copied && result != -EFAULT) {
		copy_value(call);
		if (call->copied)
			call->flags |= CALL_READ_LATE;
	}
	if (has_meant_port(call))
		count(bpf_ringbuf_output(&records, call, sizeof(*call), BPF_RB_NO_WAKEUP) != 0);
	bpf_map_delete_elem(&open_calls, &tid);
	return 0;
}

#define TRACED(name, kind)                                                         \
	SEC("tracepoint/syscalls/sys_enter_" #name)                                \
	int enter_##name(struct trace_event_raw_sys_enter *ctx)                    \
	{                                                                          \
		return begin(kind, ctx);                                           \
	}                                                                          \
	SEC("tracepoint/syscalls/sys_exit_" #name)                                 \
	int exit_##name(struct trace_event_raw_sys_exit *ctx)                      \
	{                                                                          \
		return end(ctx);                                                   \
	}

TRACED(setsockopt, CALL_SETSOCKOPT)
TRACED(listen, CALL_LISTEN)
TRACED(shutdown, CALL_SHUTDOWN)
TRACED(bind, CALL_BIND)
TRACED(connect, CALL_CONNECT)
TRACED(accept, CALL_ACCEPT)
TRACED(accept4, CALL_ACCEPT)

char LICENSE[] SEC("license") = "Dual MIT/GPL";
