// Percentile curves.

import type { Curve } from "./document/picture.ts";
import type { Report } from "./document/report.ts";
import type { Distribution, PageDocument } from "./document.ts";
import { experimentWords } from "./experiment.ts";
import { nines } from "./scale.ts";
import { join } from "./series.ts";

/** A curve as it is drawn. */
export interface NamedCurve {
    /** What decides its colour. */
    kind: string;
    name: string;
    /** Quantile and latency, ascending, as far as the number of requests resolves them. */
    points: [number, number][];
}

/** The quantiles of the table, and of the axis. */
export const QUANTILES = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

/** Returns the curves of the document: those of the picture, or that of the report's latencies. */
export function curvesOf(document: PageDocument): NamedCurve[] {
    const curves = (document.picture?.curves ?? []).filter((curve) => curve.points.length > 1);
    if (curves.length > 0) {
        return curves.map((curve) => ({
            kind: curve.name,
            name: nameOf(curve, document.report),
            points: resolved(curve),
        }));
    }
    const own = document.report && curveOf(document.report, "measured");
    return own ? [own] : [];
}

/** Returns the points of a curve that its requests resolve: 100 requests have no quantile of 99.9 %. */
function resolved({ points, count }: Curve): [number, number][] {
    const most = 1 - 1 / (2 * Math.max(count, 1));
    return points.filter(([quantile]) => quantile <= most || quantile >= 1);
}

/** The curves of an experiment say which it was. */
function nameOf(curve: Curve, report: Report | null | undefined): string {
    const outcome = report?.experiments?.[curve.experiment ?? -1];
    return outcome ? `${curve.name}: ${experimentWords(outcome.experiment)}` : curve.name;
}

/** Returns the curve of a report's baseline; null without its latencies. */
export function curveOf(report: Report, name: string): NamedCurve | null {
    const latency = report.details?.latency ?? [];
    return latency.length > 1 ? { kind: name, name, points: fromDistribution(latency) } : null;
}

function fromDistribution(latency: Distribution): [number, number][] {
    const total = latency.reduce((sum, [, count]) => sum + count, 0);
    let seen = 0;
    return latency.map(([ns, count]) => {
        seen += count;
        return [seen / total, ns];
    });
}

/** Returns the latency at a quantile: that of the first point at or above it. Null beyond the
 * curve's resolution: the quantile of the slowest of 100 requests is not that of 10,000. */
export function latencyAt(curve: NamedCurve, quantile: number): number | null {
    const found = curve.points.find(([q]) => q >= quantile - 1e-12);
    const before = curve.points.findLast(([q]) => q < 1)?.[0] ?? 0;
    return found && (found[0] < 1 || quantile <= before) ? found[1] : null;
}

/** Joins the curves to columns with one x axis, on which each further nine has the same width. */
export function columnsOf(curves: NamedCurve[]): [number[], ...(number | null)[][]] {
    const drawn = curves.map((curve) => {
        const last = curve.points.findLast(([q]) => q < 1)?.[0] ?? 0;
        return curve.points.map(([q, ns]): [number, number] => [
            nines(q < 1 ? q : last + (1 - last) / 2),
            ns,
        ]);
    });
    return join(drawn);
}
