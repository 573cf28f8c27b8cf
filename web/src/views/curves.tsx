// Percentile curves of latency, over each other.

import { useMemo } from "preact/hooks";
import { columnsOf, curvesOf, latencyAt, type NamedCurve, QUANTILES } from "../curve.ts";
import type { PageDocument } from "../document.ts";
import { Chart, type ChartSeries } from "../parts/chart.tsx";
import { MaybeNs } from "../parts/figure.tsx";
import { columns, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { duration } from "../quantity.ts";
import { nines } from "../scale.ts";

export function hasCurves(document: PageDocument): boolean {
    return curvesOf(document).length > 0;
}

export function Curves({ document }: { document: PageDocument }) {
    const curves = useMemo(() => curvesOf(document), [document]);
    const kinds = [...new Set(curves.map((curve) => curve.kind))];
    const says = `The latency that a share of the requests does not exceed; each further nine has the same width. ${explain(kinds)}`;
    return (
        <View id="curves" title="Percentile curves" says={says}>
            <CurveChart curves={curves} />
        </View>
    );
}

const EXPLAIN: Record<string, string> = {
    baseline: "Baseline: our own requests, by our own timestamps.",
    observed: "Observed: by packets.",
    control: "Control: without the intervention, interleaved with treated.",
    treated: "Treated: with the intervention.",
    predicted: "Predicted: observed, less what the first finding cost each of them; an estimate.",
};

function explain(kinds: string[]): string {
    return kinds.flatMap((kind) => EXPLAIN[kind] ?? []).join(" ");
}

/** Colours that are neither those of owners nor confused with each other. */
const SERIES: Record<string, Omit<ChartSeries, "label">> = {
    baseline: { colour: "curve-1" },
    observed: { colour: "curve-2" },
    measured: { colour: "curve-2" },
    control: { colour: "curve-1", dash: [6, 4] },
    treated: { colour: "curve-3", dash: [6, 4] },
    predicted: { colour: "curve-3", dash: [2, 3] },
    before: { colour: "curve-2" },
    after: { colour: "curve-3" },
};

/** A chart of curves with its table. */
export function CurveChart({ curves }: { curves: NamedCurve[] }) {
    const data = useMemo(() => columnsOf(curves), [curves]);
    const series = useMemo(
        () =>
            curves.map(({ kind, name }) => ({
                label: name,
                ...(SERIES[kind] ?? { colour: "curve-1" }),
            })),
        [curves],
    );
    return (
        <>
            <Chart
                label="Percentile curves"
                height={300}
                data={data}
                series={series}
                x={{
                    label: "share of the requests",
                    values: quantileWords,
                    splits: [0, ...QUANTILES].map(nines),
                }}
                y={{ label: "latency", values: duration, isLog: true }}
            />
            <Twin
                caption="Percentiles of latency"
                columns={columns(["Curve"], [...QUANTILES.map(percent), "maximum"])}
                rows={curves.map((curve) => [
                    curve.name,
                    ...QUANTILES.map((q) => <MaybeNs key={q} of={latencyAt(curve, q)} />),
                    <MaybeNs key="max" of={curve.points.at(-1)?.[1]} />,
                ])}
            />
        </>
    );
}

function quantileWords(x: number): string {
    return percent(1 - 10 ** -x);
}

/** Formats a quantile with as many nines as it has: `99.99 %`. */
function percent(quantile: number): string {
    return `${Number((quantile * 100).toPrecision(Math.max(3, Math.ceil(nines(quantile)) + 1)))} %`;
}
