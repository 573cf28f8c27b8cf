// The content policy of the page: it allows this script and this style sheet by their hashes.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/** Maximum size of script and style sheet together, gzipped. */
const MOST_BYTES = 60_000;
/** Strings that end or change the element around the text (HTML §13.2.5), or that the HTML parser
 * changes, so that the hash would no longer be that of the text. */
const UNSAFE = [/<\/script/i, /<\/style/i, /<!--/, /\r/, /\0/];

/** Checks the built files and writes `policy.json` next to them. */
export function policy(): Plugin {
    let folder = "dist";
    return {
        name: "policy",
        apply: "build",
        configResolved(config) {
            folder = resolve(config.root, config.build.outDir);
        },
        closeBundle() {
            const script = checked(join(folder, "page.js"));
            const style = checked(join(folder, "page.css"));
            const size = gzipSync(script).length + gzipSync(style).length;
            console.log(`page.js and page.css: ${size} bytes gzipped, at most ${MOST_BYTES}`);
            if (size > MOST_BYTES) {
                throw new Error(`script and style sheet have ${size} bytes gzipped`);
            }
            const hashes = { script: hash(script), style: hash(style) };
            writeFileSync(join(folder, "policy.json"), `${JSON.stringify(hashes, null, 2)}\n`);
        },
    };
}

function checked(path: string): string {
    const text = readFileSync(path, "utf8");
    for (const unsafe of UNSAFE) {
        if (unsafe.test(text)) {
            throw new Error(`${path} contains ${unsafe}, so it cannot be put into a page`);
        }
    }
    return text;
}

function hash(text: string): string {
    return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}
