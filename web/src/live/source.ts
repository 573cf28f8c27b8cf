// What the server of a running watch says: whether there is a newer version of the page, and that
// version.

/** The server knows this interval as `ASKED_EVERY`. */
export const ASKED_EVERY_MS = 3000;

export interface News {
    version: number;
    /** The age of its figures. */
    age_ms: number;
    /** True if no other version will follow. */
    is_last: boolean;
}

/** The number of the version that a document shows. */
export function versionOf(of: Document): number {
    return Number(of.body.dataset.live);
}

export async function news(): Promise<News> {
    // A refusal has no body, and is no JSON.
    return (await (await fetch("version")).json()) as News;
}

/** Gets the latest version as a document that runs no script. Unlike a parser of text, this needs no
 * trusted type. */
export function latest(): Promise<Document> {
    return new Promise((resolve, reject) => {
        const request = new XMLHttpRequest();
        request.responseType = "document";
        request.onloadend = () => {
            const page = request.responseXML;
            page?.body.dataset.live ? resolve(page) : reject();
        };
        request.open("GET", location.pathname);
        request.send();
    });
}
