// The picture of a diagnosis (schema/picture-1.json).
//
// Instants are nanoseconds since the epoch. A JavaScript number holds them to about 256 ns only, so
// the page shows instants as times after the first one, to the microsecond.

import type { Owner, WaitKind, WaitShare } from "../document.ts";
import type { HostStage, WaitSpan } from "./report.ts";

export interface Picture {
    services: PictureService[];
    shares: PartShares[];
    raster: Raster;
    /** The exchanges of which the capture lacks packets, by time. */
    cut?: Raster | null;
    points?: Points | null;
    curves: Curve[];
    exchanges: PicturedExchange[];
    ladders?: Ladder[];
    connections?: PicturedConnection[];
    sockets?: PicturedSocket[];
}

export interface PictureService {
    /** Empty for all servers that do not fit. */
    server: string;
    count: number;
}

export interface PartShares {
    service: number | null;
    part: "all" | "median" | "p99" | "slowest" | "mode";
    mode?: number | null;
    count: number;
    low_ns: number;
    high_ns: number;
    mean_ns: number;
    waits: WaitShare[];
}

export interface Raster {
    start_ns: number;
    column_ns: number;
    columns: number;
    /** Lower bounds of the rows, and the upper bound of the last one. */
    rows_ns: number[];
    cells: Cell[];
}

/** Service, column, row, number of exchanges, owner of most of their time. */
export type Cell = [number, number, number, number, Owner];

export interface Points {
    start_ns: number;
    after_us: number[];
    latency_ns: number[];
    owner: number[];
    owners: Owner[];
    service: number[];
}

export type CurveName = "baseline" | "observed" | "control" | "treated" | "predicted";

export interface Curve {
    name: CurveName;
    /** Index of the experiment in the report, for `control` and `treated`. */
    experiment?: number | null;
    count: number;
    /** Quantile, 0 to 1, and the latency in nanoseconds at it. */
    points: [number, number][];
}

export interface PicturedExchange {
    service: number;
    why: "example" | "slowest" | "sample";
    shows?: string[];
    joined_waits?: number;
    /** Null if only the report's example of the exchange is known. */
    capture?: string | null;
    ordinal?: number | null;
    status?: number | null;
    cost_ns: number;
    setup_ns?: number | null;
    response_bytes?: number | null;
    client: string;
    server: string;
    request: string;
    outcome: string;
    start_ns: number;
    latency_ns: number;
    first_packet: number | null;
    last_packet: number | null;
    waits: WaitSpan[];
    at_host?: HostStage[];
    recoveries: Recovery[];
}

export interface Recovery {
    sender: Owner;
    mechanism: string;
    took_ns: number;
    packet: number | null;
}

export interface Ladder {
    cause?: string | null;
    client: string;
    server: string;
    start_ns: number;
    latency_ns: number;
    packets: LadderPacket[];
    left_out: number;
    gaps: LadderGap[];
    display_filter: string;
}

export interface LadderPacket {
    number: number;
    at_ns: number;
    from_client: boolean;
    flags: string;
    seq: number;
    ack?: number | null;
    bytes: number;
    /** Null if the capture does not show how the window is scaled. */
    window?: number | null;
    is_retransmission: boolean;
    /** Number of packets left out just before this one. */
    left_out?: number;
}

export interface LadderGap {
    at_ns: number;
    duration_ns: number;
    kind: WaitKind;
    owner: Owner;
    cause?: string | null;
}

export interface PicturedConnection {
    cause?: string | null;
    client: string;
    server: string;
    start_ns: number;
    packets: number;
    /** What the client sent, and what the server sent. */
    ways: [WaySeries, WaySeries];
}

/** Pairs of nanoseconds after the connection's start and a value. */
export type Series = [number, number][];

export interface WaySeries {
    sent: Series;
    resent: Series;
    acknowledged: Series;
    allowed: Series;
    in_flight: Series;
    round_trips: Series;
}

export interface PicturedSocket {
    program: string;
    pid: number;
    local: string | null;
    /** Null for a listener. */
    remote: string | null;
    start_ns: number;
    calls: PicturedCall[];
    left_out?: number;
}

export interface PicturedCall {
    /** Time after the socket's first call. */
    at_ns: number;
    call: string;
    option: string | null;
    value: string;
    /** Bytes that the connection had sent before. */
    sent: number;
    error: string | null;
}
