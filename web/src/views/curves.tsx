// Percentile curves of latency, over each other.

import { useMemo, useState } from "preact/hooks";
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
    const says = `The latency that a share of the requests does not exceed; each further nine has the same width. ${explain(kinds)}${kinds.length > 2 ? " The legend adds more." : ""}`;
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
const SERIES: Record<string, Omit<ChartSeries, "label" | "kind">> = {
    baseline: { colour: "curve-2" },
    observed: { colour: "curve-1" },
    measured: { colour: "curve-2" },
    control: { colour: "curve-2" },
    treated: { colour: "curve-3" },
    predicted: { colour: "curve-4", dash: [3, 3] },
    before: { colour: "curve-2" },
    after: { colour: "curve-4" },
};

/** Curves that are drawn at once: what was measured, and what is expected or came of it. */
const AT_ONCE = ["baseline", "measured", "predicted", "before", "after"];

function isAtOnce(curve: NamedCurve, curves: NamedCurve[]): boolean {
    const hasBaseline = curves.some((one) => one.kind === "baseline");
    return AT_ONCE.includes(curve.kind) || (curve.kind === "observed" && !hasBaseline);
}

/** Figures of which only a few are known are points: what is between them was not measured. */
const FEW = 10;

function seriesOf({ kind, name, points }: NamedCurve, i: number): ChartSeries {
    const looks = SERIES[kind] ?? { colour: "curve-1" };
    // Those of another experiment have the same colours.
    const marks = i % 4 < 2 ? "points" : "crosses";
    return { label: name, kind: points.length < FEW ? marks : "steps-before", ...looks };
}

/** A chart of curves with its table. */
export function CurveChart({ curves }: { curves: NamedCurve[] }) {
    // By name: a later version of the page may have other curves.
    const [toggled, setToggled] = useState<string[]>([]);
    const [drawn, others] = useMemo(() => {
        const isDrawn = (one: NamedCurve) => isAtOnce(one, curves) !== toggled.includes(one.name);
        return [curves.filter(isDrawn), curves.filter((one) => !isDrawn(one))];
    }, [curves, toggled]);
    const data = useMemo(() => columnsOf(drawn), [drawn]);
    const looks = (one: NamedCurve) => seriesOf(one, curves.indexOf(one));
    // biome-ignore lint/correctness/useExhaustiveDependencies: those drawn are of these curves.
    const series = useMemo(() => drawn.map(looks), [drawn]);
    const toggle = (name: string) =>
        setToggled(
            toggled.includes(name) ? toggled.filter((it) => it !== name) : [...toggled, name],
        );
    return (
        <>
            <Chart
                label="Percentile curves"
                height={300}
                data={data}
                series={series}
                others={others.map(looks)}
                onToggle={curves.length > 2 ? toggle : undefined}
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
