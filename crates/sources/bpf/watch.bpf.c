// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Requests of live servers as the kernel sees them: when their bytes arrived,
 * were read, answered, held back and sent. Only stable tracepoints, with types
 * from the kernel's own description (BTF); nothing is changed.
 *
 * Every turn of every watched connection is timed, in what its socket carries
 * for us (watch/turns.h). Turns that took long are handed up, and while there
 * is room for it all turns and segments (watch/segments.h) of a sample, with
 * what the threads that answer did (watch/threads.h).
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel_types.h"
#include "watch.h"

#include "watch/connections.h"
#include "watch/threads.h"
#include "watch/turns.h"
#include "watch/segments.h"
#include "watch/drops.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
