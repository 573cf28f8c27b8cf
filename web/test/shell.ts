// Builds a page around a document as the command does it, for development and for tests of the
// script: `npm run shell -- DOCUMENT.json PAGE.html`. The command's own verdict is fuller.

import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import type { PageDocument } from "../src/document.ts";
import { duration, share } from "../src/quantity.ts";
import { visible } from "../src/visible.ts";
import { knownOwner, LETTERS, waitWords } from "../src/words.ts";

const DIST = new URL("../dist/", import.meta.url);

/** Returns the page of a document. */
export function shell(document: PageDocument): string {
    const script = readFileSync(new URL("page.js", DIST), "utf8");
    const style = readFileSync(new URL("page.css", DIST), "utf8");
    const hashes = JSON.parse(readFileSync(new URL("policy.json", DIST), "utf8")) as {
        script: string;
        style: string;
    };
    const policy = `default-src 'none'; script-src '${hashes.script}'; style-src '${hashes.style}'; img-src data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'`;
    const data = gzipSync(JSON.stringify(document)).toString("base64");
    return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" content="${policy}"><title>lagtrace: ${text(subjectOf(document))}</title><style>${style}</style></head><body><header><h1>lagtrace</h1><p>${text(subjectOf(document))}</p></header><main>${verdict(document)}${time(document)}<div id="views"></div><noscript><p>The other views need JavaScript.</p></noscript></main><script id="data" type="application/json" data-encoding="gzip;base64">${data}</script><script>${script}</script></body></html>`;
}

function subjectOf(document: PageDocument): string {
    return document.report?.subject ?? document.kind;
}

function verdict(document: PageDocument): string {
    const findings = document.report?.findings ?? [];
    const items = findings.map(
        (it) =>
            `<section class="finding verdict-${it.verdict}"><h3>${text(it.title)}</h3><p>${text(it.verdict)}: ${text(it.culprit)}</p></section>`,
    );
    return `<section id="verdict"><h2>Verdict</h2>${items.join("")}</section>`;
}

function time(document: PageDocument): string {
    const waits = document.report?.exchanges.waits ?? [];
    const rows = waits.map(
        (it) =>
            `<tr><th scope="row">${text(waitWords(it.kind))}</th><td><span class="owner"><span class="chip owner-${knownOwner(it.owner)}" aria-hidden="true">${LETTERS[knownOwner(it.owner)]}</span>${knownOwner(it.owner)}</span></td><td class="number" data-ns="${it.total_ns}">${duration(it.total_ns)}</td><td class="number" data-value="${it.share}">${share(it.share)}</td></tr>`,
    );
    return `<section id="time"><h2>Where the time went</h2><table class="twin"><thead><tr><th scope="col">Wait</th><th scope="col">Owner</th><th scope="col" class="number">Total</th><th scope="col" class="number">Share</th></tr></thead><tbody>${rows.join("")}</tbody></table></section>`;
}

function text(value: string): string {
    return visible(value).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

const [, name, from, to] = process.argv;
if (name?.endsWith("shell.ts") && from && to) {
    writeFileSync(to, shell(JSON.parse(readFileSync(from, "utf8"))));
}
