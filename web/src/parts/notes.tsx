// Errors in words with what to do, a button that copies, figures with a title, and a dialog.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { adviceFor, messageOf } from "../api/client.ts";
import { Text } from "./name.tsx";

export function ErrorNote({ error, retry }: { error: unknown; retry?: () => void }) {
  if (error === null || error === undefined) return null;
  return (
    <div class="note error" role="alert">
      <p><Text text={messageOf(error)} limit={400} /></p>
      <p>{adviceFor(error)}</p>
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

export function Busy({ text }: { text: string }) {
  return <p class="busy" role="status"><span class="spinner" aria-hidden="true" />{text}</p>;
}

export function Tile({ title, value, detail }: { title: string; value: string; detail?: string | undefined }) {
  return <div class="tile"><dt>{title}</dt><dd><strong>{value}</strong>{detail && <span class="soft">{detail}</span>}</dd></div>;
}

export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const [said, setSaid] = useState("");
  const copy = () => {
    navigator.clipboard.writeText(text()).then(() => setSaid("Copied."), () => setSaid(`The browser does not allow it. The link: ${text()}`));
  };
  return <span><button type="button" onClick={copy}>{label}</button> <span role="status" class="soft">{said}</span></span>;
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

/** A modal dialog: the browser keeps the focus inside and gives it back; Escape closes it. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current!.showModal();
    return () => dialog.current?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onCancel={(event) => { event.preventDefault(); onClose(); }}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}
