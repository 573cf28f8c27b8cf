// Selection, order and filter of the pictured exchanges.

import type { Range } from "./density.ts";
import type { PicturedExchange } from "./document/picture.ts";
import type { Owner, WaitKind } from "./document.ts";
import { LETTERS } from "./words.ts";

export interface Filter {
    owner: Owner | "";
    cause: string;
    text: string;
    range: Range | null;
}

export type Order = "latency" | "start" | "cost";

/** Returns the exchanges that pass the filter, in this order. `start` is where the range begins. */
export function chosen(
    exchanges: PicturedExchange[],
    filter: Filter,
    order: Order,
    start: number,
): PicturedExchange[] {
    return exchanges.filter((one) => passes(one, filter, start)).sort(ORDERS[order]);
}

const ORDERS: Record<Order, (a: PicturedExchange, b: PicturedExchange) => number> = {
    latency: (a, b) => b.latency_ns - a.latency_ns,
    start: (a, b) => a.start_ns - b.start_ns,
    cost: (a, b) => b.cost_ns - a.cost_ns,
};

function passes(one: PicturedExchange, filter: Filter, start: number): boolean {
    const { owner, cause, text, range } = filter;
    return (
        (owner === "" || mainOwner(one) === owner) &&
        (cause === "" || (one.shows ?? []).includes(cause)) &&
        (text === "" || textOf(one).includes(text.toLowerCase())) &&
        (range === null || isIn(one, range, start))
    );
}

function isIn(one: PicturedExchange, range: Range, start: number): boolean {
    const at = one.start_ns - start;
    const isTime = at >= range.from && at < range.to;
    return isTime && one.latency_ns >= range.low && one.latency_ns < range.high;
}

function textOf(one: PicturedExchange): string {
    return [one.request, one.outcome, one.client, one.server].join(" ").toLowerCase();
}

/** True if both are the same exchange, in documents that may differ. */
export function isSame(one: PicturedExchange, other: PicturedExchange | null): boolean {
    return (
        one.start_ns === other?.start_ns &&
        one.client === other.client &&
        one.request === other.request
    );
}

/** The owner of most of the exchange's time. */
export function mainOwner(one: PicturedExchange): Owner {
    const sums = new Map<Owner, number>();
    for (const wait of one.waits) {
        sums.set(wait.owner, (sums.get(wait.owner) ?? 0) + wait.duration_ns);
    }
    const owners = Object.keys(LETTERS) as Owner[];
    return owners.reduce((a, b) => ((sums.get(b) ?? 0) > (sums.get(a) ?? 0) ? b : a));
}

/** The kind of the exchange's longest wait. */
export function longestWait(one: PicturedExchange): WaitKind {
    const first = { kind: "unknown" as WaitKind, duration_ns: -1 };
    return one.waits.reduce((a, b) => (b.duration_ns > a.duration_ns ? b : a), first).kind;
}

/** A Wireshark display filter for the exchange's packets, as crates/core makes it for findings; null
 * if the packets have no numbers, or the ends no addresses. */
export function displayFilter(one: PicturedExchange): string | null {
    const { first_packet: first, last_packet: last } = one;
    const [client, server] = [ENDPOINT.exec(one.client), ENDPOINT.exec(one.server)];
    if (first === null || last === null || !client || !server) {
        return null;
    }
    const address = client[1] ?? client[2] ?? "";
    const protocol = client[1] ? "ipv6" : "ip";
    const ports = `tcp.port == ${client[3]} && tcp.port == ${server[3]}`;
    const packets = `${Math.min(first, last)}..${Math.max(first, last)}`;
    return `${protocol}.addr == ${address} && ${ports} && frame.number in {${packets}}`;
}

/** `10.0.0.1:80` or `[::1]:80`. */
const ENDPOINT = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d+)$/;
