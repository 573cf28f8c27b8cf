// Before and after a change: curves over each other, shares side by side, differences with their
// intervals, and what became of each finding.

import { useMemo } from "preact/hooks";
import { curveOf } from "../curve.ts";
import type {
    Comparison,
    FindingChange,
    Judgement,
    LatencyChange,
} from "../document/comparison.ts";
import type { PageDocument, WaitShare } from "../document.ts";
import { Difference, Ns, OwnerMark, Share, Text } from "../parts/figure.tsx";
import { Stack } from "../parts/stack.tsx";
import { Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { rate, share } from "../quantity.ts";
import { knownOwner, LETTERS, waitWords } from "../words.ts";
import { Intervals } from "./comparison/intervals.tsx";
import { CurveChart } from "./curves.tsx";

export const JUDGEMENTS: Record<Judgement, string> = {
    better: "better",
    worse: "worse",
    "no-difference": "no difference",
    immaterial: "too little to matter",
    uncertain: "too noisy to say",
    "not-judged": "not judged: the rates differ",
};

export function Differences({ comparison }: { comparison: Comparison }) {
    const method = comparison.intervals
        ? "The lines are the 95 % intervals of the differences."
        : "The reports have too few groups of requests for intervals.";
    return (
        <View
            id="differences"
            title="Differences"
            says={`The latency after the change minus that before it; left of zero is faster. ${method}`}
        >
            <Intervals changes={comparison.latency} />
            <Twin
                caption="Latency before and after"
                columns={[
                    "Figure",
                    "Before",
                    "After",
                    "Difference",
                    "95 % from",
                    "to",
                    "Judgement",
                ].map((head, i) => ({
                    head,
                    isNumber: i > 0 && i < 6,
                }))}
                rows={[...comparison.latency.map(latencyRow), ...otherRows(comparison)]}
            />
        </View>
    );
}

function latencyRow(change: LatencyChange) {
    return [
        change.figure,
        <Ns key="before" of={change.before_ns} />,
        <Ns key="after" of={change.after_ns} />,
        <Difference key="difference" of={change.difference_ns} />,
        change.low_ns === null ? "–" : <Difference key="low" of={change.low_ns} />,
        change.high_ns === null ? "–" : <Difference key="high" of={change.high_ns} />,
        JUDGEMENTS[change.judgement] ?? change.judgement,
    ];
}

function otherRows({ rate: rates, failures }: Comparison) {
    const row = (name: string, change: Comparison["rate"], words: (value: number) => string) => {
        const signed = (value: number) => `${value < 0 ? "−" : "+"}${words(Math.abs(value))}`;
        const cell = (key: string, value: number | null, shown: (value: number) => string) =>
            value === null ? (
                "–"
            ) : (
                <span key={key} data-value={value}>
                    {shown(value)}
                </span>
            );
        return [
            name,
            cell("before", change.before, words),
            cell("after", change.after, words),
            cell("difference", change.difference, signed),
            cell("low", change.low, signed),
            cell("high", change.high, signed),
            JUDGEMENTS[change.judgement] ?? change.judgement,
        ];
    };
    return [row("rate", rates, rate), row("failed", failures, share)];
}

export function BothCurves({ document }: { document: PageDocument }) {
    const curves = useMemo(() => {
        const before = document.before && curveOf(document.before, "before");
        const after = document.after && curveOf(document.after, "after");
        return [before, after].filter((curve) => curve != null);
    }, [document]);
    if (curves.length === 0) {
        return null;
    }
    return (
        <View
            id="curves"
            title="Percentile curves"
            says="The latency that a share of the requests does not exceed, before and after the change; each further nine has the same width."
        >
            <CurveChart curves={curves} />
        </View>
    );
}

export function BothShares({ document }: { document: PageDocument }) {
    const [before, after] = [document.before, document.after];
    if (!before || !after) {
        return null;
    }
    const kinds = kindsOf([...before.exchanges.waits, ...after.exchanges.waits]);
    const find = (waits: WaitShare[], { kind, owner }: WaitShare) =>
        waits.find((wait) => wait.kind === kind && wait.owner === owner);
    const bar = (name: string, waits: WaitShare[]) => ({
        name,
        figure: "",
        parts: kinds.map((kind) => ({
            value: find(waits, kind)?.share ?? 0,
            kind: `owner-${knownOwner(kind.owner)}`,
            letter: LETTERS[knownOwner(kind.owner)],
        })),
    });
    return (
        <View
            id="shares"
            title="Where the time went"
            says="The time of the requests by kind of wait and owner."
        >
            <Stack
                label="Shares of the time before and after; the table below lists them."
                rows={[bar("before", before.exchanges.waits), bar("after", after.exchanges.waits)]}
            />
            <Twin
                caption="Shares before and after"
                columns={["Wait", "Owner", "Before", "After"].map((head, i) => ({
                    head,
                    isNumber: i > 1,
                }))}
                rows={kinds.map((kind) => [
                    waitWords(kind.kind),
                    <OwnerMark key="owner" of={kind.owner} />,
                    ...[before, after].map((report, i) => (
                        <Share key={i} of={find(report.exchanges.waits, kind)?.share ?? 0} />
                    )),
                ])}
            />
        </View>
    );
}

/** Each kind of wait once, those of one owner together. */
function kindsOf(waits: WaitShare[]): WaitShare[] {
    const kinds = new Map(waits.map((wait) => [`${wait.owner} ${wait.kind}`, wait]));
    return [...kinds.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, wait]) => wait);
}

const FATES: Record<FindingChange["fate"], string> = {
    vanished: "gone",
    stayed: "still there",
    appeared: "new",
    "not-measured": "not measured after",
};

const MECHANISMS: Record<NonNullable<FindingChange["mechanism"]>, string> = {
    changed: "changed, seen on live sockets",
    configured: "changed in the configuration",
    unchanged: "unchanged",
    "not-seen": "not seen in both runs",
};

export function FindingChanges({ changes }: { changes: FindingChange[] }) {
    return (
        <View
            id="changes"
            title="Findings"
            says="What became of each finding, and whether its mechanism was seen to change."
        >
            <Twin
                caption="Findings before and after"
                columns={[
                    "Cause",
                    "Became",
                    "Share before",
                    "Share after",
                    "Mechanism",
                    "Explanation",
                ].map((head, i) => ({
                    head,
                    isNumber: i === 2 || i === 3,
                }))}
                rows={changes.map((change) => [
                    <Text key="title" of={change.title} />,
                    FATES[change.fate] ?? change.fate,
                    <Share key="before" of={change.share_before} />,
                    <Share key="after" of={change.share_after} />,
                    change.mechanism ? (MECHANISMS[change.mechanism] ?? change.mechanism) : "–",
                    <Text key="explanation" of={change.explanation} />,
                ])}
            />
        </View>
    );
}
