/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What watch.bpf.c hands to lagtrace: the layout of its records.
 * crates/sources/src/kernel/attached/record.rs reads them and must agree with it.
 */
#ifndef LAGTRACE_WATCH_H
#define LAGTRACE_WATCH_H

#include <linux/types.h>

/* Ports that may be asked for. */
#define MAX_PORTS 16
/* Headers and payload kept of a segment: IPv6 and TCP with options and 64 more. */
#define MAX_CAPTURED 168
/* Turns are counted by how long they took: eight steps for each doubling, from
 * 256 ns on. */
#define LATENCY_SLOTS 320

/* What to watch, fixed when the programs are loaded. */
struct watch_config {
	/* Local ports in host order; none: whatever the programs below use. */
	__u16 ports[MAX_PORTS];
	__u32 port_count;
	/* Only what this process reads and writes; 0: any. */
	__u32 tgid;
	/* Only what processes of this cgroup do; 0: any. */
	__u64 cgroup;
	/* Payload kept of a turn's first segment each way, in bytes. */
	__u32 request_bytes;
	__u32 response_bytes;
	/* Only connections of this network namespace, by its inode; 0: any. */
	__u32 namespace;
};

/* What may be changed while the programs run. */
struct watch_control {
	/* Turns that took this long are handed up, in ns; 0: none for that. */
	__u64 slow_from;
	/* A connection is in the sample if its hash has none of these bits. */
	__u32 sample_mask;
	/* Which look it is, while a sample is looked at in detail; 0: none. */
	__u32 look;
	/* What is to be added to CLOCK_REALTIME for CLOCK_MONOTONIC, in ns. */
	__s64 monotonic;
};

/* What happened, for each processor. */
struct watch_tally {
	/* For want of room in the ring. */
	__u64 lost_records;
	__u64 connections;
	__u64 lost_connections;
};

enum record_kind {
	RECORD_SEGMENT_IN = 1,
	RECORD_SEGMENT_OUT = 2,
	RECORD_TURN = 3,
	RECORD_OPENING = 4,
};

/* What a side offered in its SYN, as the kernel keeps it. */
struct terms {
	__u16 mss;
	/* Shift of the windows that it advertises. */
	__u8 window_scale;
	__u8 pad;
};

/* One TCP segment at the border of the host's network stack. */
struct segment_record {
	__u8 kind;
	__u8 pad;
	__u16 captured;
	/* From the IP header on, as on the wire (before segmentation offload). */
	__u32 len;
	__u64 at;
	/* The network namespace, by its inode: addresses may be those of another. */
	__u32 namespace;
	/* What the segment's sender had offered when the connection was made. */
	struct terms terms;
	__u8 bytes[MAX_CAPTURED];
};

/* Two ends of a connection; IPv4 addresses in the first four bytes. */
struct ends {
	__be32 local[4];
	__be32 remote[4];
	__u16 local_port;
	__u16 remote_port;
	__u16 family;
	__u16 protocol;
};

/* A connection that this host accepted: its handshake, as the socket keeps it. */
struct opening_record {
	__u8 kind;
	__u8 has_scaling;
	__u8 has_sack;
	__u8 has_timestamps;
	__u32 namespace;
	/* The handshake's last acknowledgement came, and how long before that the
	 * answer to the SYN had gone, in us. */
	__u64 at;
	struct ends ends;
	__u32 rtt_us;
	/* First sequence numbers after the SYNs. */
	__u32 own_seq;
	__u32 peer_seq;
	/* Windows then, in bytes. */
	__u32 own_window;
	__u32 peer_window;
	struct terms own;
	struct terms peer;
	/* Timestamps of the last acknowledgement, as on the wire. */
	__u32 tsval;
	__u32 tsecr;
};

/* A turn: what came, and what was sent for it. Times are CLOCK_MONOTONIC in
 * nanoseconds, 0 where there was no such moment. */
struct turn_record {
	__u8 kind;
	/* What the thread did meanwhile is known. */
	__u8 has_thread;
	__u16 pad;
	__u32 writes;
	struct ends ends;
	/* The first bytes asked of us arrived, the network stack took them up (0:
	 * not seen), and TCP got them; it got the last. */
	__u64 arrived_at;
	__u64 entered_at;
	__u64 delivered_at;
	__u64 delivered_last_at;
	/* The program read first. */
	__u64 read_at;
	/* It wrote first and last. */
	__u64 written_at;
	__u64 written_last_at;
	/* TCP sent the first and last bytes of its answer. */
	__u64 sent_at;
	__u64 sent_last_at;
	/* The device's driver got the last of it (0: not seen), and how long the
	 * first and the last segment had lain in queueing disciplines by then,
	 * beyond what pacing wanted. */
	__u64 left_at;
	__u64 first_queued_out;
	__u64 queued_out;
	/* Something of what was asked was dropped last for want of memory in its
	 * socket; 0: nothing was. */
	__u64 refused_at;
	/* The longest time that written bytes stayed unsent by Nagle's
	 * algorithm, and how long they did in all. */
	__u64 held_longest;
	__u64 held;
	__u32 holds;
	/* Of those, the ones that an acknowledgement ended. */
	__u32 holds_acked;
	/* Its thread was ready and without a processor: before it read, and from
	 * there to its last write; of both, with its processor idle; and asleep
	 * there. */
	__u64 queued_unread;
	__u64 queued;
	__u64 waking_unread;
	__u64 waking;
	__u64 slept;
	/* It waited for somebody whom it asked; 0: it is not known to have asked. */
	__u64 asked_for;
	struct ends asked;
	__u32 pid;
	__u32 tid;
	char comm[16];
};

#endif
