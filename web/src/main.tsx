// The start: takes the token out of the address, opens the stream and draws the page.

import { render } from "preact";
import { takeToken } from "./api/token.ts";
import { App } from "./app.tsx";
import { StreamConnection } from "./live/connection.ts";
import { live } from "./live/live_state.ts";
import { watchTheme } from "./theme.ts";
import "./style.css";

takeToken();
// A second link with a token may be opened in a tab that is already here.
addEventListener("hashchange", () => { if (location.hash.startsWith("#token=")) { takeToken(); location.reload(); } });
watchTheme();
const connection = new StreamConnection(live);
connection.watchVisibility();
connection.start();
const root = document.getElementById("root")!;
root.textContent = "";
render(<App connection={connection} />, root);
