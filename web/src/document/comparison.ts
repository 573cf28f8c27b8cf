// Two reports compared (schema/comparison-1.json).

export interface Comparison {
    schema: number;
    outcome: "better" | "no-worse" | "mixed" | "worse" | "undecided";
    before: Side;
    after: Side;
    is_equal_rate: boolean;
    intervals: { confidence: number; resamples: number } | null;
    latency: LatencyChange[];
    rate: QuantityChange;
    failures: QuantityChange;
    findings: FindingChange[];
    prediction: PredictionCheck | null;
    remarks: { id: string; text: string }[];
}

export interface Side {
    command: string;
    subject: string;
    started: string;
    requests: number;
    failed: number;
    rate: number;
    offered_rate: number | null;
}

export type Judgement =
    | "better"
    | "worse"
    | "no-difference"
    | "immaterial"
    | "uncertain"
    | "not-judged";

export interface LatencyChange {
    figure: "mean" | "p50" | "p90" | "p99";
    before_ns: number;
    after_ns: number;
    difference_ns: number;
    low_ns: number | null;
    high_ns: number | null;
    judgement: Judgement;
}

export interface QuantityChange {
    before: number;
    after: number;
    difference: number;
    low: number | null;
    high: number | null;
    judgement: Judgement;
}

export interface FindingChange {
    cause: string;
    title: string;
    service: string;
    fate: "vanished" | "stayed" | "appeared" | "not-measured";
    verdict_before: string | null;
    verdict_after: string | null;
    share_before: number;
    share_after: number;
    mechanism: "changed" | "configured" | "unchanged" | "not-seen" | null;
    explanation: string;
}

export interface PredictionCheck {
    cause: string;
    at_rate: number;
    measured_rate: number;
    p50: PredictedFigure;
    p99: PredictedFigure;
    holds: boolean | null;
}

export interface PredictedFigure {
    predicted_ns: number;
    measured_ns: number;
    agrees: boolean;
}
