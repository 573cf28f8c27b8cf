// The page's script: it decodes the document and draws its views. The verdict and the shares of time
// are in the page already.

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { decode } from "./decode.ts";
import { Page } from "./page.tsx";

async function start() {
    const views = document.getElementById("views");
    const island = document.getElementById("data");
    if (!views || !island) {
        return;
    }
    try {
        const page = await decode(island.textContent ?? "", island.getAttribute("data-encoding"));
        render(<Page document={page} onDrawn={ready} />, views);
    } catch (error) {
        render(<Failure error={error as Error} />, views);
        ready();
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
void start();
