// The page document: everything that the page shows. The reports in it may come from any source, so
// the types say what a well-formed document holds; `decode` checks the parts without which nothing
// can be drawn.

import type { Comparison } from "./document/comparison.ts";
import type { Picture } from "./document/picture.ts";
import type { Report } from "./document/report.ts";
import type { ScoreEntry, ScoreObject } from "./document/score.ts";

export type { Comparison } from "./document/comparison.ts";
export type { Picture } from "./document/picture.ts";
export type { Report } from "./document/report.ts";

/** Version of the page document that this script reads. */
export const PAGE = 1;

export interface PageDocument {
    page: number;
    made_by: string;
    kind: "report" | "comparison" | "score";
    report?: Report | null;
    picture?: Picture | null;
    comparison?: Comparison | null;
    before?: Report | null;
    after?: Report | null;
    score?: ScoreObject | ScoreEntry[] | null;
}

/** The party that would have to change something to shorten a time. */
export type Owner = "client" | "server" | "path" | "resolver" | "proxy" | "unknown";

/** The kind of a wait, by what released it. */
export type WaitKind =
    | "resolve"
    | "connect"
    | "request-transfer"
    | "request-pause"
    | "request-held"
    | "round-trip"
    | "server-think"
    | "response-transfer"
    | "server-pause"
    | "response-held"
    | "window-full"
    | "congestion-window"
    | "send-buffer"
    | "paced"
    | "flow-control"
    | "between-messages"
    | "recovery"
    | "behind"
    | "unknown";

/** Figures of a distribution, in nanoseconds. */
export interface Figures {
    count: number;
    min: number;
    mean: number;
    p50: number;
    p75: number;
    p90: number;
    p99: number;
    p999: number;
    max: number;
}

/** Figures of probes, in nanoseconds. */
export interface ProbeFigures {
    min: number;
    mean: number;
    p50: number;
    p90: number;
    p99: number;
    max: number;
    mdev: number;
}

/** A kind of wait and its share of the total time. */
export interface WaitShare {
    kind: WaitKind;
    owner: Owner;
    total_ns: number;
    share: number;
}

/** Durations and how often each occurs, ascending. */
export type Distribution = [number, number][];
