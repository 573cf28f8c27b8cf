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
    // An integer is at least a bound exactly if it is at least the next integer.
    const bounds = [
        ["from_ns", range.from],
        ["to_ns", range.to],
        ["low_ns", range.low],
        ["high_ns", range.high],
    ].map(([name, bound]) => `${name}=${Math.ceil(Number(bound))}`);
    const more = [service !== null && `service=${service}`, owner && `owner=${owner}`];
    return get(`exchanges?${[...bounds, ...more].filter(Boolean).join("&")}`, signal);
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
