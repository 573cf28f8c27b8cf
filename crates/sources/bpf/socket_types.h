/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The kernel structures that options.bpf.c reads, with only the fields that it reads.
 * libbpf finds the offsets of the fields when it loads the program (CO-RE), so their order
 * and the missing fields do not matter.
 */
#ifndef LAGTRACE_SOCKET_TYPES_H
#define LAGTRACE_SOCKET_TYPES_H

#include <linux/types.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned long skc_flags;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	int sk_rcvbuf;
	int sk_sndbuf;
	__u16 sk_protocol;
	__u16 sk_type;
	__u32 sk_max_ack_backlog;
	__u8 sk_userlocks : 4;
};

enum sock_flags {
	SOCK_KEEPOPEN = 3,
};

struct inet_bind_bucket {
	signed char fastreuse;
};

struct fastopen_queue {
	int max_qlen;
};

struct request_sock_queue {
	__u8 rskq_defer_accept;
	struct fastopen_queue fastopenq;
};

struct inet_connection_sock {
	struct inet_bind_bucket *icsk_bind_hash;
	struct request_sock_queue icsk_accept_queue;
	__u32 icsk_user_timeout;
};

struct tcp_sock {
	__u64 bytes_sent;
	__u32 notsent_lowat;
	__u8 nonagle : 4;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct socket {
	struct file *file;
	struct sock *sk;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct pid;

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct files_struct *files;
	char comm[16];
};

struct trace_event_raw_sys_enter {
	unsigned long args[6];
};

struct trace_event_raw_sys_exit {
	long ret;
};

#pragma clang attribute pop

#endif
