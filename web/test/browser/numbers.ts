// Numbers on the page compared with those of its document.

import { gunzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import type { PageDocument } from "../../src/document.ts";
import { difference, duration } from "../../src/quantity.ts";

/** Returns the document of a page file. */
export function documentOf(html: string): PageDocument {
    const island = /<script id="data"[^>]*>([^<]*)<\/script>/.exec(html)?.[1] ?? "";
    return JSON.parse(gunzipSync(Buffer.from(island, "base64")).toString("utf8"));
}

interface Figure {
    ns: string | null;
    value: string | null;
    text: string;
    isDrawn: boolean;
}

/** Returns the figures of the page that are not figures of the document, or are written otherwise. */
export async function wrongNumbers(page: Page, document: PageDocument): Promise<string[]> {
    const known = numbersOf(document);
    const figures = await page.evaluate((): Figure[] =>
        [...globalThis.document.querySelectorAll("[data-ns], [data-value]")].map((element) => ({
            ns: element.getAttribute("data-ns"),
            value: element.getAttribute("data-value"),
            text: element.textContent ?? "",
            isDrawn: element.closest("#views") !== null,
        })),
    );
    return figures
        .filter((figure) => !isRight(figure, known))
        .map((figure) => JSON.stringify(figure));
}

function isRight(figure: Figure, known: Set<number>): boolean {
    const value = Number(figure.ns ?? figure.value);
    if (!known.has(value)) {
        // A sum over nothing is shown as zero.
        return value === 0;
    }
    const isDuration = figure.ns !== null && figure.isDrawn;
    return !isDuration || [duration(value), difference(value)].includes(figure.text);
}

function numbersOf(value: unknown, found = new Set<number>()): Set<number> {
    if (typeof value === "number") {
        found.add(value);
    } else if (typeof value === "object" && value !== null) {
        for (const part of Object.values(value)) {
            numbersOf(part, found);
        }
    }
    return found;
}

/** Returns durations that a page of this document has to show. */
export function expectedNumbers(document: PageDocument): number[] {
    const { report, picture, comparison } = document;
    const slowest = Math.max(0, ...(picture?.exchanges ?? []).map((one) => one.latency_ns));
    const ladder = picture?.ladders?.[0]?.packets ?? [];
    const bookings = (report?.account ?? []).flatMap((account) => account.exchanges);
    const places = report?.joined?.places ?? [];
    const calls = (picture?.sockets ?? []).flatMap((socket) => socket.calls);
    return [
        ...(slowest > 0 ? [slowest] : []),
        ...ladder.slice(0, 3).map((packet) => packet.at_ns),
        ...bookings.slice(0, 3).map((booking) => booking.booked_ns),
        ...places.map((place) => place.total_ns),
        ...calls.slice(0, 5).map((call) => call.at_ns),
        ...(comparison?.latency ?? []).map((change) => change.difference_ns),
        ...(report?.probes ?? []).flatMap((probe) =>
            probe.received > 0 ? [probe.rtt_ns.p50] : [],
        ),
    ];
}
