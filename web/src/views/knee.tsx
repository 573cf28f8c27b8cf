// Load in steps: latency and throughput, and the knee.

import { useMemo } from "preact/hooks";
import type { Sweep, SweepStep } from "../document/report.ts";
import { Chart, type ChartSeries } from "../parts/chart.tsx";
import { Count, cells, Ns } from "../parts/figure.tsx";
import { columns, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { count, duration, rate } from "../quantity.ts";
import { join } from "../series.ts";
import { visible } from "../visible.ts";

const LATENCIES: ChartSeries[] = [
    { label: "p50", colour: "curve-2" },
    { label: "p99", colour: "curve-3" },
];
const RATES: ChartSeries[] = [{ label: "answered a second", colour: "curve-4" }];

const NUMBERS = ["Offered", "Answered", "Failed", "Mean", "p50", "p99", "Maximum"];

export function Knee({ sweep }: { sweep: Sweep }) {
    const [latencies, rates] = useMemo(() => chartsOf(sweep), [sweep]);
    const knee = sweep.knee === null ? undefined : sweep.steps[sweep.knee];
    const axis = {
        label: sweep.over === "rate" ? "offered a second" : "connections",
        values: count,
    };
    return (
        <View id="knee" title="Load in steps" says={says(sweep)}>
            <Chart
                label="Latency by load"
                height={240}
                data={latencies}
                series={LATENCIES}
                x={axis}
                y={{ label: "latency", values: duration, isLog: true }}
                mark={knee && loadOf(sweep, knee)}
            />
            <Chart
                label="Rate by load"
                height={180}
                data={rates}
                series={RATES}
                x={axis}
                y={{ label: "rate", values: rate }}
            />
            <Twin
                caption="Steps"
                columns={columns(["Connections"], NUMBERS, ["Remark"])}
                rows={sweep.steps.map((step, i) => [
                    <Count key="connections" of={step.connections} />,
                    step.offered_rate === null ? (
                        "–"
                    ) : (
                        <Rate key="offered" of={step.offered_rate} />
                    ),
                    <Rate key="rate" of={step.rate} />,
                    <Count key="failed" of={step.failed} />,
                    <Ns key="mean" of={step.latency_ns.mean} />,
                    ...cells([step.latency_ns.p50, step.latency_ns.p99, step.latency_ns.max]),
                    remarks(step, i === sweep.knee),
                ])}
            />
        </View>
    );
}

/** The load of a step, in the quantity that increases. */
function loadOf(sweep: Sweep, step: SweepStep): number {
    return sweep.over === "rate" ? (step.offered_rate ?? step.rate) : step.connections;
}

function Rate({ of }: { of: number }) {
    return <span data-value={of}>{rate(of)}</span>;
}

function says(sweep: Sweep): string {
    const knee = sweep.knee === null ? undefined : sweep.steps[sweep.knee];
    const unit = sweep.over === "rate" ? "requests a second" : "connections";
    const where = knee
        ? `The knee is at ${count(loadOf(sweep, knee))} ${unit}: more load mostly makes requests wait.`
        : "No knee was found.";
    return `${where}${sweep.remark ? ` ${visible(sweep.remark)}` : ""}`;
}

function remarks(step: SweepStep, isKnee: boolean): string {
    const all = [
        isKnee && "the knee",
        step.falls_behind && "fewer answered than due",
        step.is_generator_limit && "the generator may be the limit",
    ];
    return all.filter(Boolean).join(", ") || "–";
}

function chartsOf(sweep: Sweep) {
    const series = (of: (step: SweepStep) => number) =>
        sweep.steps.map((step): [number, number] => [loadOf(sweep, step), of(step)]);
    return [
        join([series((step) => step.latency_ns.p50), series((step) => step.latency_ns.p99)]),
        join([series((step) => step.rate)]),
    ] as const;
}
