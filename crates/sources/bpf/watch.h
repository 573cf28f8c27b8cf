/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The records that watch.bpf.c sends to lagtrace. Their layout must agree with
 * crates/sources/src/kernel/attached/record.rs, which reads them.
 */
#ifndef LAGTRACE_WATCH_H
#define LAGTRACE_WATCH_H

#include <linux/types.h>

/* Maximum number of requested ports. */
#define MAX_PORTS 16
/* Maximum number of bytes kept of a segment: the headers of IPv6 and of TCP with
 * options, and 64 bytes of payload. */
#define MAX_CAPTURED 168
/* Maximum numbers of bytes kept of a segment of an HTTP/2 connection: frames begin
 * anywhere in it. A record has one of these sizes. */
#define MAX_CAPTURED_FRAMES 2048
#define MAX_CAPTURED_MANY 16384
#define MAX_CAPTURED_ALL 65535
/* Number of counters of exchanges by duration: eight for each doubling, from 256
 * ns on. */
#define LATENCY_SLOTS 320

/* The connections to watch, fixed when the programs are loaded. */
struct watch_config {
	/* Local ports in host byte order; none: all ports that the selected programs
	 * use. */
	__u16 ports[MAX_PORTS];
	__u32 port_count;
	/* The process whose reads and writes are watched; 0: any. */
	__u32 tgid;
	/* The control group whose processes are watched; 0: any. */
	__u64 cgroup;
	/* Number of payload bytes that are kept of an exchange's first segment in each
	 * direction. */
	__u32 request_bytes;
	__u32 response_bytes;
	/* Inode of the network namespace whose connections are watched; 0: any. */
	__u32 namespace;
	/* Inode of the PID namespace that numbers processes; 0: the initial one. */
	__u32 pid_namespace;
};

/* Settings that change while the programs run. */
struct watch_control {
	/* Minimum duration in ns of exchanges that are reported even outside of sampling
	 * periods; 0: none are. */
	__u64 slow_from;
	/* A connection is in the sample if its hash has none of these bits. */
	__u32 sample_mask;
	/* Number of the current sampling period (in names: look); 0: there is none now. */
	__u32 look;
	/* CLOCK_MONOTONIC minus CLOCK_REALTIME, in ns. */
	__s64 monotonic;
	/* True if there are no pauses between sampling periods, so that a handshake is
	 * seen as a whole, however long it takes. */
	__u32 is_whole;
	__u32 pad;
};

/* Counts, separate for each processor. */
struct watch_tally {
	/* Records that were lost because the ring was full. */
	__u64 lost_records;
	__u64 connections;
	__u64 lost_connections;
	/* Segments with requests of HTTP/2 connections: all, and those in the sample. */
	__u64 frames;
	__u64 sampled_frames;
	/* Handshakes of TLS that were followed by a request. */
	__u64 tls_handshakes;
};

enum record_kind {
	RECORD_SEGMENT_IN = 1,
	RECORD_SEGMENT_OUT = 2,
	RECORD_TURN = 3,
	RECORD_OPENING = 4,
	RECORD_PASSAGE = 5,
};

/* The places that a connection's bytes pass in this host. */
enum gate {
	/* TCP received them. */
	GATE_DELIVERED = 1,
	/* The program has read them. */
	GATE_READ = 2,
	/* The program has written them. */
	GATE_WRITTEN = 3,
	/* TCP sent them. */
	GATE_SENT = 4,
	/* The device's driver received them. */
	GATE_LEFT = 5,
};

/* The TCP options that one end offered in its SYN, as the kernel keeps them. */
struct terms {
	__u16 mss;
	/* Shift of the windows that this end advertises. */
	__u8 window_scale;
	__u8 pad;
};

/* One TCP segment at the edge of the host's network stack. */
struct segment_record {
	__u8 kind;
	__u8 pad;
	__u16 captured;
	/* Length from the IP header on, before segmentation offload splits the segment. */
	__u32 len;
	__u64 at;
	/* Inode of the network namespace. Equal addresses in two namespaces belong to
	 * different connections. */
	__u32 namespace;
	/* The options that the segment's sender offered in the handshake. */
	struct terms terms;
	__u8 bytes[MAX_CAPTURED];
};

/* The two ends of a connection. An IPv4 address is in the first four bytes. */
struct ends {
	__be32 local[4];
	__be32 remote[4];
	__u16 local_port;
	__u16 remote_port;
	__u16 family;
	__u16 protocol;
};

/* The calls of one request to one service. */
struct asked {
	/* The total time from each call to the first read of its answer, and of connecting;
	 * the parts of it that the sockets' smallest round trips take, and for which SYNs
	 * or datagrams got no answer, in ns. */
	__u64 took;
	__u64 way;
	__u64 silent;
	/* Number of calls, and of connections that were made for them. */
	__u32 calls;
	__u32 connections;
	struct ends whom;
};

/* The handshake of a connection that this host accepted, from the values in its
 * socket. */
struct opening_record {
	__u8 kind;
	__u8 has_scaling;
	__u8 has_sack;
	__u8 has_timestamps;
	__u32 namespace;
	/* `at` is the time when the handshake's ACK arrived; `rtt_us` is the time since
	 * the SYN/ACK, in us. */
	__u64 at;
	struct ends ends;
	__u32 rtt_us;
	/* Sequence numbers after the SYNs. */
	__u32 own_seq;
	__u32 peer_seq;
	/* Windows at the end of the handshake, in bytes. */
	__u32 own_window;
	__u32 peer_window;
	struct terms own;
	struct terms peer;
	/* Timestamps of the handshake's ACK, as in the packet. */
	__u32 tsval;
	__u32 tsecr;
};

/* An exchange (in names: turn): the request that arrived and the answer that was
 * sent. Times are CLOCK_MONOTONIC in ns; 0: the event did not happen. */
struct turn_record {
	__u8 kind;
	/* True if the times of the thread are known. */
	__u8 has_thread;
	__u16 pad;
	__u32 writes;
	struct ends ends;
	/* Times when the request's first bytes arrived, when the network stack took them
	 * up (0: not observed), and when TCP received its first and its last bytes. */
	__u64 arrived_at;
	__u64 entered_at;
	__u64 delivered_at;
	__u64 delivered_last_at;
	/* Time of the program's first read. */
	__u64 read_at;
	/* Times of the program's first and last write. */
	__u64 written_at;
	__u64 written_last_at;
	/* Times when TCP sent the first and the last bytes of the answer. */
	__u64 sent_at;
	__u64 sent_last_at;
	/* Time when the device's driver received the answer's last segment (0: not
	 * observed). Durations for which the answer's first and last segments waited in
	 * queueing disciplines, without the time that pacing required. */
	__u64 left_at;
	__u64 first_queued_out;
	__u64 queued_out;
	/* Time of the last drop of a part of the request because the socket was out of
	 * memory; 0: no drop. */
	__u64 refused_at;
	/* The longest single time and the total time for which Nagle's algorithm held
	 * written bytes back. */
	__u64 held_longest;
	__u64 held;
	__u32 holds;
	/* Number of holds by Nagle's algorithm that an ACK ended. */
	__u32 holds_acked;
	/* Times of the answering thread. Runnable without a processor: before its first
	 * read (`queued_unread`), and from there to its last write (`queued`). The parts
	 * of both that ended on an idle processor (`waking_unread`, `waking`). Asleep
	 * from its first read to its last write (`slept`). */
	__u64 queued_unread;
	__u64 queued;
	__u64 waking_unread;
	__u64 waking;
	__u64 slept;
	/* The service that the thread waited for longest; a time of 0: no call is known. */
	struct asked asked;
	__u32 pid;
	__u32 tid;
	char comm[16];
};

/* Bytes of an HTTP/2 connection that passed a gate. On such a connection, requests
 * overtake each other, so their times are reported by the bytes' positions, and not
 * by exchange. Times are CLOCK_MONOTONIC in ns. */
struct passage_record {
	__u8 kind;
	__u8 gate;
	/* True if the times of the thread are known. */
	__u8 has_thread;
	/* For GATE_SENT: something arrived while the bytes were held. */
	__u8 is_acked;
	/* The sequence numbers of the first byte, and of the byte after the last. */
	__u32 start_seq;
	struct ends ends;
	__u64 at;
	/* For GATE_DELIVERED, as in struct turn_record; otherwise 0. */
	__u64 arrived_at;
	__u64 entered_at;
	/* For GATE_LEFT: how long the segment waited in queueing disciplines. For a
	 * thread: the total time for which it was runnable without a processor, the part
	 * of it that ended on an idle processor, and its total time asleep. */
	__u64 queued;
	__u64 waking;
	__u64 slept;
	/* For GATE_READ: as in struct turn_record, while these bytes waited to be read. */
	__u64 queued_unread;
	__u64 waking_unread;
	__u32 end_seq;
	/* The thread that read or wrote. */
	__u32 pid;
	__u32 tid;
	char comm[16];
	__u32 pad;
	/* For GATE_SENT: how long Nagle's algorithm held the bytes back; 0: it did not. */
	__u64 held;
};

#endif
