// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Observes the requests of live servers in the kernel: when their bytes arrived, were read,
 * answered, held back and sent. Uses only stable tracepoints, with the kernel's own type
 * information (BTF), and changes nothing.
 *
 * An exchange is a request and its answer on one connection. In names, it is called a turn.
 * Every exchange of every watched connection is timed in its socket's storage
 * (watch/turns.h), unless it uses HTTP/2 (watch/frames.h). Slow exchanges are reported at any time. In sampling periods (in names:
 * looks), a sample of connections is observed in detail: all its exchanges and segments are
 * reported (watch/segments.h), and the activity of the answering threads (watch/threads.h).
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel_types.h"
#include "numbers.h"
#include "watch.h"

#include "watch/connections.h"
#include "watch/threads.h"
#include "watch/frames.h"
#include "watch/tls.h"
#include "watch/turns.h"
#include "watch/segments.h"
#include "watch/drops.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
