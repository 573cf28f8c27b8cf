/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The records that options.bpf.c sends to lagtrace. Their layout must agree with
 * crates/sources/src/kernel/calls/record.rs, which reads them.
 */
#ifndef LAGTRACE_OPTIONS_H
#define LAGTRACE_OPTIONS_H

#include <linux/types.h>

/* Maximum numbers of requested ports, processes and control groups. */
#define MAX_PORTS 16
#define MAX_PIDS 1024
#define MAX_GROUPS 16384
/* Maximum number of bytes kept of a value: enough for the address of a Unix
 * socket. The options of interest are shorter. */
#define MAX_VALUE 112

/* The choice of the calls to report, fixed when the programs are loaded. */
struct call_config {
	/* Ports in host byte order; a socket matches if either end uses one. None: any
	 * port. */
	__u16 ports[MAX_PORTS];
	__u32 port_count;
	/* True if only calls of processes in the map `pids` are reported. */
	__u8 is_by_pid;
	/* True if only calls of processes in the control groups of the map `groups`, or
	 * below them, are reported. */
	__u8 is_by_group;
	__u8 pad[2];
	/* Inode of the PID namespace that numbers processes; 0: the initial one. */
	__u32 pid_namespace;
};

/* Counts, separate for each processor. */
struct call_tally {
	__u64 calls;
	/* Calls that were lost because the ring was full. */
	__u64 lost;
};

enum call_kind {
	CALL_SETSOCKOPT = 1,
	CALL_LISTEN = 2,
	CALL_SHUTDOWN = 3,
	CALL_BIND = 4,
	CALL_CONNECT = 5,
	/* accept() and accept4(): the socket is the accepted one. */
	CALL_ACCEPT = 6,
};

/* Bits of `after` of CALL_ACCEPT: the options that the accepted socket has from
 * its listener. */
#define INHERITED_NODELAY 1
#define INHERITED_CORK 2
#define INHERITED_SNDBUF 4
#define INHERITED_RCVBUF 8

/* The descriptor was a socket, which the record describes. */
#define CALL_HAS_SOCKET 1
/* `before` and `after` are known. */
#define CALL_HAS_BEFORE 2
#define CALL_HAS_AFTER 4
/* The value is a key, so nothing of it was read. */
#define CALL_IS_SECRET 8
/* The value could be read only after the call. */
#define CALL_READ_LATE 16
/* The kernel chose the socket's local port, so the socket is a client's. */
#define CALL_IS_CLIENT 32

struct call_record {
	__u8 kind;
	__u8 flags;
	/* The socket's state, type, family and protocol. */
	__u8 state;
	__u8 type;
	__u16 family;
	__u16 protocol;
	/* CLOCK_MONOTONIC in ns. */
	__u64 entered_at;
	__u64 left_at;
	__s64 result;
	/* Address of the value in the process. */
	__u64 pointer;
	__s32 fd;
	/* The second argument: the level of setsockopt(), the backlog of listen(), the
	 * direction of shutdown(), and for CALL_ACCEPT the listener's rskq_defer_accept,
	 * which is 0 without TCP_DEFER_ACCEPT. */
	__s32 level;
	/* CALL_ACCEPT: the listener's queue of TCP Fast Open, 0 without it. */
	__s32 option;
	__s32 len;
	/* The kernel's value for the option before and after the call. For CALL_ACCEPT,
	 * `before` is the listener's backlog and `after` is what the socket inherited. */
	__s64 before;
	__s64 after;
	__u64 inode;
	__u64 cookie;
	__be32 local[4];
	__be32 remote[4];
	__u16 local_port;
	__u16 remote_port;
	__u32 namespace;
	__u32 pid;
	__u32 tid;
	/* Names of the process and of the thread. */
	char comm[16];
	char thread[16];
	__u32 copied;
	__u8 value[MAX_VALUE];
	__u32 pad;
	/* Bytes that the connection had sent when the call began (TCP). */
	__u64 sent;
};

#endif
