// Reading of the document from the page's data island: JSON, gzipped, in base64.

import { PAGE, type PageDocument } from "./document.ts";

/** A document that cannot be shown. The message is for the reader of the page. */
export class Unreadable extends Error {}

/** Decodes the text of the data island. */
export async function decode(text: string, encoding: string | null): Promise<PageDocument> {
    if (encoding !== "gzip;base64") {
        throw new Unreadable(`The data of this page have an unknown encoding: ${encoding}.`);
    }
    // The page is shown before its data are read, and each step is a task of its own.
    await pause();
    const json = await unzip(fromBase64(text.trim()));
    await pause();
    const document = checked(parse(json));
    await pause();
    return document;
}

/** Ends the task, so that frames and input come between long steps. */
function pause(): Promise<void> {
    return new Promise((done) => setTimeout(done));
}

/** `Uint8Array.fromBase64`, which browsers have since 2025. */
interface Native {
    fromBase64?(text: string): Uint8Array<ArrayBuffer>;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
    try {
        const native = Uint8Array as Native;
        return native.fromBase64
            ? native.fromBase64(text)
            : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    } catch {
        throw new Unreadable("The data of this page are damaged: they are not whole base64.");
    }
}

async function unzip(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
    if (typeof DecompressionStream === "undefined") {
        throw new Unreadable("This browser cannot decompress data: it is older than 2023.");
    }
    try {
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
        return await new Response(stream).text();
    } catch {
        throw new Unreadable(
            "The data of this page are damaged or truncated: gzip cannot read them.",
        );
    }
}

function parse(json: string): unknown {
    try {
        return JSON.parse(json);
    } catch (error) {
        throw new Unreadable(`The data of this page are not JSON: ${(error as Error).message}.`);
    }
}

/** Checks that the parts exist without which nothing can be drawn. */
export function checked(value: unknown): PageDocument {
    if (typeof value !== "object" || value === null || !("page" in value) || !("kind" in value)) {
        throw new Unreadable("The data of this page are not a page document.");
    }
    const document = value as PageDocument;
    if (document.page !== PAGE) {
        throw new Unreadable(
            `The data of this page have version ${document.page}, this script reads version ${PAGE}.`,
        );
    }
    const needed = { report: "report", comparison: "comparison", score: "score" } as const;
    const part = needed[document.kind];
    if (part === undefined || !document[part]) {
        throw new Unreadable(`The data of this page hold no ${document.kind}.`);
    }
    return document;
}
