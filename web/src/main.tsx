// The page's script: it decodes the document and draws its views. The verdict and the shares of time
// are in the page already.

import { render } from "preact";
import "./page.css";
import { decode } from "./decode.ts";
import { follow } from "./live/follow.tsx";
import { update } from "./live/update.ts";
import { Page } from "./page.tsx";

async function start() {
    const views = document.getElementById("views");
    if (!views) {
        return;
    }
    try {
        await draw(document, views);
    } catch (error) {
        render(<Failure error={error as Error} />, views);
        ready();
    }
    if (document.body.dataset.live) {
        follow(async (fresh) => {
            await draw(fresh, views);
            update(fresh);
            document.body.dataset.live = fresh.body.dataset.live;
        });
    }
}

/** Draws the views of the document in a page: of this one, or of a later version of it. */
async function draw(from: Document, views: HTMLElement) {
    const island = from.getElementById("data");
    if (island) {
        const encoding = island.getAttribute("data-encoding");
        const page = await decode(island.textContent ?? "", encoding);
        render(<Page document={page} onDrawn={ready} />, views);
    }
}

/** Says that nothing more will be drawn by itself, for tests and for those who print. */
function ready() {
    document.documentElement.dataset.ready = "";
}

/** The verdict above stands without the document. */
function Failure({ error }: { error: Error }) {
    return (
        <section class="failure" role="alert" aria-labelledby="failure-title">
            <h2 id="failure-title">The pictures of this page cannot be shown</h2>
            <p>{error.message}</p>
            <p>The file may have been cut or changed on its way here. Make it anew with --html.</p>
        </section>
    );
}

/** Paper has nothing to open: what is folded is printed, but for tables that stand beside a picture.
 * Browsers that know how to unfold by the style sheet have done so already. */
function printUnfolded() {
    let folded: HTMLDetailsElement[] = [];
    addEventListener("beforeprint", () => {
        folded = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open], .twin)")];
        for (const details of folded) {
            details.open = true;
        }
    });
    addEventListener("afterprint", () => {
        for (const details of folded) {
            details.open = false;
        }
    });
}

/** Paper is light, whatever the screen is: pictures copy the colours of the page. */
function printLight() {
    const root = document.documentElement;
    let before: string | undefined;
    addEventListener("beforeprint", () => {
        before = root.dataset.theme;
        root.dataset.theme = "light";
    });
    addEventListener("afterprint", () => {
        if (before) {
            root.dataset.theme = before;
        } else {
            delete root.dataset.theme;
        }
    });
}

printLight();
printUnfolded();
void start();
