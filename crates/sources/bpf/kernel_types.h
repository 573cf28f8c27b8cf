/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The kernel structures that watch.bpf.c reads, with only the fields that it reads. libbpf
 * finds the offsets of the fields when it loads the program (CO-RE), so their order and the
 * missing fields do not matter.
 */
#ifndef LAGTRACE_KERNEL_TYPES_H
#define LAGTRACE_KERNEL_TYPES_H

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
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	__u8 sk_shutdown;
	__u32 sk_pacing_status;
};

struct tcp_options_received {
	__u32 rcv_tsval;
	__u32 rcv_tsecr;
	__u16 tstamp_ok : 1;
	__u16 wscale_ok : 1;
	__u16 sack_ok : 3;
	__u16 snd_wscale : 4;
	__u16 rcv_wscale : 4;
	__u16 mss_clamp;
};

struct inet_sock {
	struct sock sk;
};

struct request_sock_queue {
	__u8 rskq_defer_accept;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct request_sock_queue icsk_accept_queue;
	__u32 icsk_pmtu_cookie;
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 write_seq;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_wnd;
	__u32 snd_cwnd;
	__u32 packets_out;
	__u32 mss_cache;
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 rcv_wnd;
	__u32 srtt_us;
	struct minmax rtt_min;
	__u32 total_retrans;
	__u32 tsoffset;
	__u64 tcp_wstamp_ns;
	__u64 bytes_received;
	__u16 advmss;
	struct tcp_options_received rx_opt;
	__u8 nonagle : 4;
};

/* The contents of a segment's `cb` field in TCP. */
struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u16 tcp_flags;
};

struct net_device {
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned int len;
	unsigned int data_len;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	__s64 tstamp;
	char cb[48];
	unsigned char *head;
	unsigned char *data;
};

struct cfs_rq {
	int runtime_enabled;
};

struct sched_entity {
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
};

struct pid;

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct sched_entity se;
};

/* The argument of an iterator over sockets that have a value in a storage map. */
struct bpf_iter__bpf_sk_storage_map {
	struct sock *sk;
	void *value;
};

/* The running kernel's numbers replace these values (CO-RE). */
enum skb_drop_reason {
	SKB_DROP_REASON_SOCKET_RCVBUFF = 1,
	SKB_DROP_REASON_SOCKET_BACKLOG,
	SKB_DROP_REASON_PROTO_MEM,
	SKB_DROP_REASON_TCP_OFO_QUEUE_PRUNE,
};

#pragma clang attribute pop

#endif
