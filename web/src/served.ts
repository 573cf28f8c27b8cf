// What the server of the page, `lagtrace view --serve`, reads from the capture again.

import type { Range } from "./density.ts";
import type { Picture, PicturedExchange } from "./document/picture.ts";
import type { Owner } from "./document.ts";

/** The exchanges of a selection. */
export interface Listed {
    /** Number of exchanges in the selection. */
    total: number;
    /** The slowest of them, slowest first. */
    exchanges: PicturedExchange[];
}

/** True if the page is served and not a file. */
export function isServed(): boolean {
    return document.body.dataset.served !== undefined;
}

/** Reads the exchanges of a selection. */
export function exchangesOf(
    range: Range,
    service: number | null,
    owner: Owner | "",
    signal: AbortSignal,
): Promise<Listed> {
    return get(`exchanges?${queryOf(range, service, owner)}`, signal);
}

/** The query for a selection. An integer is at least a bound exactly if it is at least the next
 * integer. A selection without a width contains one nanosecond. */
export function queryOf(range: Range, service: number | null, owner: Owner | ""): string {
    const [from, low] = [Math.ceil(range.from), Math.ceil(range.low)];
    const to = Math.max(Math.ceil(range.to), from + 1);
    const high = Math.max(Math.ceil(range.high), low + 1);
    return [
        `from_ns=${from}&to_ns=${to}&low_ns=${low}&high_ns=${high}`,
        ...(service === null ? [] : [`service=${service}`]),
        ...(owner === "" ? [] : [`owner=${owner}`]),
    ].join("&");
}

/** Reads the packets of an exchange: of the page's by its index, of others by their facts. */
export function packetsOf(one: PicturedExchange, index: number): Promise<Picture> {
    const key = `?client=${one.client}&server=${one.server}&first_packet=${one.first_packet}&ordinal=${one.ordinal}`;
    return get(`packets${index < 0 ? key : `/${index}`}`);
}

async function get<T>(path: string, signal: AbortSignal | null = null): Promise<T> {
    const answer = await fetch(path, { signal });
    if (!answer.ok) {
        throw new Error(`HTTP ${answer.status}`);
    }
    return (await answer.json()) as T;
}
