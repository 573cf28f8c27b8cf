// Opening of page files in Chromium, with a record of everything that a good page does not do.

import { pathToFileURL } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { settled } from "./settled.ts";

/** The system's browser: none is downloaded. */
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Without a graphics card, the GPU process would only be a second one that draws by itself. */
const ARGUMENTS = ["--no-sandbox", "--disable-gpu"];

export function launch(): Promise<Browser> {
    return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
}

export interface Opened {
    page: Page;
    /** Console messages, errors, requests, dialogs and violations of the content policy. */
    complaints: string[];
}

/** Opens a page file without a network, and waits until its script is done. */
export function open(
    browser: Browser,
    file: string,
    options: BrowserContextOptions = {},
): Promise<Opened> {
    return openUrl(browser, pathToFileURL(file).href, { offline: true, ...options });
}

/** Opens a page by its URL, and waits until its script is done. */
export async function openUrl(
    browser: Browser,
    url: string,
    options: BrowserContextOptions = {},
): Promise<Opened> {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    const complaints: string[] = [];
    await record(page, url, complaints);
    await page.goto(url);
    if (options.javaScriptEnabled !== false) {
        await page.waitForSelector("html[data-ready]", { state: "attached" });
        await settled(page);
    }
    return { page, complaints };
}

async function record(page: Page, url: string, complaints: string[]) {
    page.on("console", (message) => complaints.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
        complaints.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
    });
    page.on("request", (request) => {
        if (request.url() !== url) {
            complaints.push(`request: ${request.url()}`);
        }
    });
    await page.exposeFunction("reportViolation", (text: string) => complaints.push(text));
    // The loader of TypeScript names functions with this one, also those that run in the page.
    await page.addInitScript("globalThis.__name = (it) => it");
    await page.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) => {
            const report = Reflect.get(window, "reportViolation") as (text: string) => void;
            report(`violation: ${event.violatedDirective} ${event.blockedURI}`);
        });
    });
}

/** Opens all tables, which are made when they are opened. */
export async function openTables(page: Page) {
    await page.evaluate(() => {
        for (const details of document.querySelectorAll("details")) {
            details.open = true;
        }
    });
    await settled(page);
}
