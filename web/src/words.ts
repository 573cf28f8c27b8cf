// The words of the field for the ids in the document.

import type { Owner, WaitKind } from "./document.ts";

/** The owners, in the order in which they are drawn. */
export const OWNERS: Owner[] = ["client", "server", "path", "resolver", "proxy", "unknown"];

/** One letter per owner, so that no meaning is in the colour alone. */
export const LETTERS: Record<Owner, string> = {
    client: "C",
    server: "S",
    path: "P",
    resolver: "N",
    proxy: "X",
    unknown: "?",
};

/** Colours of Okabe and Ito, which people with any colour vision can tell apart. */
export const COLOURS: Record<Owner, [number, number, number]> = {
    client: [0x56, 0xb4, 0xe9],
    server: [0xd5, 0x5e, 0x00],
    path: [0x00, 0x72, 0xb2],
    resolver: [0x00, 0x9e, 0x73],
    proxy: [0xcc, 0x79, 0xa7],
    unknown: [0x99, 0x99, 0x99],
};

const WAITS: Record<WaitKind, string> = {
    resolve: "resolving the name",
    connect: "connecting",
    "request-transfer": "sending the request",
    "request-pause": "pause within the request",
    "request-held": "request held for an ACK (Nagle)",
    "round-trip": "network transit",
    "server-think": "thinking before the response",
    "response-transfer": "sending the response",
    "server-pause": "pause within the response",
    "response-held": "response held for an ACK (Nagle)",
    "window-full": "receiver's window full",
    "congestion-window": "congestion window full",
    "send-buffer": "send buffer full",
    paced: "paced by its sender",
    "flow-control": "HTTP/2's flow-control window full",
    "between-messages": "between the messages of a stream",
    recovery: "waiting for a retransmission",
    behind: "behind another request",
    unknown: "not explained",
};

const STAGES: Record<string, string> = {
    backlog: "packet in the receive backlog",
    stack: "network stack",
    unread: "in the socket, not read",
    "wake-up": "until the program woke up",
    "run-queue": "waiting for a processor",
    program: "in the program",
    waiting: "program waiting for others",
    held: "response held in the socket",
    sending: "sending",
    qdisc: "in the queueing discipline",
};

/** Returns the name of a wait for use in a sentence. A newer report may have kinds that this page
 * does not know; these are shown by their id. */
export function waitWords(kind: WaitKind): string {
    return WAITS[kind] ?? kind;
}

export function stageWords(stage: string): string {
    return STAGES[stage] ?? stage;
}

/** Returns the owner if it is known here, otherwise `unknown`. */
export function knownOwner(owner: Owner): Owner {
    return owner in LETTERS ? owner : "unknown";
}
