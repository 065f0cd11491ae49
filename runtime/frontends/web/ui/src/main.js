/** Where the page begins. */
import { html } from "htm/preact";
import { render } from "preact";
import { Page } from "./app.js";

const element = document.getElementById("page");
if (element) render(html`<${Page} />`, element);
