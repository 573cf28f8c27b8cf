// The parts of a report (schema/report-2.json) that the page draws. The verdict is in the page as
// HTML already.

import type {
    Distribution,
    Figures,
    Owner,
    ProbeFigures,
    WaitKind,
    WaitShare,
} from "../document.ts";

export interface Report {
    schema: number;
    command: string;
    subject: string;
    started: string;
    capture?: { written?: string | null } | null;
    joined?: Joined | null;
    exchanges: Exchanges;
    probes?: Probe[];
    route?: Route | null;
    hops?: Hop[];
    sockets?: SocketGroup[];
    live?: LiveSocket[];
    limits?: Limit[];
    experiments?: ExperimentOutcome[];
    findings: Finding[];
    account?: Account[];
    details?: Details | null;
}

export interface Exchanges {
    count: number;
    latency_ns: Figures;
    waits: WaitShare[];
    modes?: LatencyMode[];
}

export interface LatencyMode {
    count: number;
    share: number;
    low_ns: number;
    peak_ns: number;
    high_ns: number;
    causes: string[];
}

export interface WaitSpan {
    kind: WaitKind;
    owner: Owner;
    duration_ns: number;
    error_ns: number | null;
    released_by_packet: number | null;
}

export interface HostStage {
    stage: string;
    duration_ns: number;
}

export interface Finding {
    cause: string;
    title: string;
    verdict: string;
    culprit: Owner;
    waits: WaitKind[];
    predicted?: { latency_ns: { p50: number; p99: number } } | null;
    fix: { where: string; change: string }[];
    exemplars: { client: string; start_ns: number; waits: WaitSpan[] }[];
    locates?: boolean;
}

export interface Details {
    clusters: Cluster[];
    latency: Distribution;
}

/** The latencies of one second of one group of connections. */
export interface Cluster {
    second: number;
    group: number;
    latency: Distribution;
    failures?: number;
}

export interface Joined {
    client_capture: string;
    server_capture: string;
    connections: number;
    packets: number;
    is_partial: boolean;
    clock: {
        offset_ns: number;
        offset_error_ns: number;
        drift_ppb: number;
        drift_error_ppb: number | null;
    };
    ways: Way[];
    places: Place[];
}

export interface Way {
    direction: string;
    delay_ns: Figures;
    lost: number;
    needless: number;
    acks_lost: number;
}

export interface Place {
    place: string;
    total_ns: number;
    loss_ns: number;
    share: number;
}

export interface Route {
    target: string;
    port: number | null;
    method: string;
    outcome: string;
    distance: number | null;
    mtu?: { mtu_bytes: number | null } | null;
}

export interface Hop {
    ttl: number;
    address: string | null;
    name?: string | null;
    asn?: number | null;
    as_name?: string | null;
    sent?: number;
    received?: number;
    state?: "answers" | "limited" | "lossy" | "undecided" | "silent";
    rtt_ns: ProbeFigures;
    kept_ns?: number;
    slow_ns?: number | null;
}

export interface Probe {
    method: string;
    target: string;
    during: string;
    sent: number;
    received: number;
    lost: number;
    rtt_ns: ProbeFigures;
    jitter_ns: number;
}

export interface Tally {
    count: number;
    of: number;
}

export interface SocketGroup {
    target: string;
    owner: string;
    sockets: number;
    samples: number;
    nodelay: Tally | null;
    cork: Tally | null;
    quickack: Tally | null;
    holding: Tally | null;
}

export interface LiveSocket {
    protocol: string;
    state: string;
    local: string;
    remote: string;
    holders: { pid: number; name: string; fd: number }[];
    receive_queue: number;
    send_queue: number;
    congestion: string | null;
    tcp: { rtt_ns: number; rto_ns: number; cwnd: number; total_retrans: number } | null;
    options: { nodelay: boolean | null; cork: boolean | null } | null;
    remarks: string[];
}

export interface Limit {
    name: string;
    value: string;
    bearing: "shown" | "cleared" | "evidence";
    text: string | null;
}

/** An intervention: a name, or a name with parameters. */
export type Experiment = string | { "think-time": { pause_ns: number } };

export interface ExperimentOutcome {
    experiment: Experiment;
    target: string;
    control: Figures;
    treated: Figures;
    difference_ns: number;
    difference_low_ns: number;
    difference_high_ns: number;
    alternations: number;
    meaning: string;
}

export interface Account {
    service: string;
    requests: number;
    connections: number;
    exchanges: Booking[];
    setups: Booking[];
}

export interface Booking {
    kind: WaitKind;
    owner: Owner;
    booked_ns: number;
    inherent_ns: number;
    claimed_ns: number;
    unclaimed_ns: number;
    claims: { cause: string; claimed_ns: number }[];
}
