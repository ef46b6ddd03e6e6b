// What-if: a list of changes to build up, the answer as difference, and on `mooring up` a button that carries it out.

import { useState } from "preact/hooks";
import { api } from "../api/client.ts";
import type { Change, DoReply, WhatIfReply } from "../api/types.ts";
import { useLive } from "../live/use_live.ts";
import { Text } from "../parts/name.tsx";
import { Busy, Dialog, ErrorNote } from "../parts/notes.tsx";
import { plural } from "../text/visible.ts";
import { KINDS, kindOf, moved, obstacleOf, outcome, problemOf, sentenceOf } from "./changes.ts";
import { AnswerMap } from "./what_if_map.tsx";
import { AnswerPods, AnswerSummary } from "./what_if_answer.tsx";

/** The question stays while one looks at other pages. */
const question: { changes: Change[]; reply: WhatIfReply | null } = { changes: [], reply: null };
/** So many names of nodes are offered while one types. */
const OFFERED = 200;

export function WhatIfPage() {
  const { session } = useLive("session");
  const [changes, setChanges] = useState(question.changes);
  const [reply, setReply] = useState(question.reply);
  const [error, setError] = useState<unknown>(null);
  const [asking, setAsking] = useState(false);
  const update = (next: Change[]) => { question.changes = next; setChanges(next); };
  const ask = async () => {
    setAsking(true);
    setError(null);
    try {
      question.reply = await api.whatIf(changes);
      setReply(question.reply);
    } catch (problem) {
      setError(problem);
    } finally {
      setAsking(false);
    }
  };
  if (session && !session.canAsk) return <Unavailable />;
  return (
    <section aria-labelledby="what-if-title">
      <h1 id="what-if-title">What if?</h1>
      <p class="soft">Build up a list of changes. The scheduler tries them on a copy of the cluster, in this order; asking changes nothing.</p>
      <ChangeList changes={changes} onChange={update} />
      <AddChange onAdd={(change) => update([...changes, change])} />
      <div class="bar">
        <button type="button" class="primary" disabled={changes.length === 0 || asking} onClick={() => void ask()}>Show the difference</button>
        {session?.canDo && <DoIt changes={changes} disabled={asking} />}
      </div>
      <ErrorNote error={error} />
      {asking && <Busy text="The scheduler tries the changes on a copy of the cluster …" />}
      {reply && !asking && (
        <div class="answer">
          <AnswerSummary answer={reply.answer} />
          <AnswerMap after={reply.after} />
          <AnswerPods answer={reply.answer} />
        </div>
      )}
    </section>
  );
}

function Unavailable() {
  return <section><h1>What if?</h1><p class="note">This server answers no questions. `mooring what-if` asks the same on the command line.</p></section>;
}

function ChangeList({ changes, onChange }: { changes: Change[]; onChange: (changes: Change[]) => void }) {
  if (changes.length === 0) return <p class="soft empty">No changes yet.</p>;
  return (
    <ol class="changes">
      {changes.map((change, at) => (
        <li key={`${at} ${change.change} ${change.value}`}>
          <span><strong>{kindOf(change.change).title}</strong> <Text text={change.value} limit={100} /></span>
          <span class="buttons">
            <button type="button" disabled={at === 0} aria-label={`Move change ${at + 1} up`} onClick={() => onChange(moved(changes, at, -1))}>↑</button>
            <button type="button" disabled={at === changes.length - 1} aria-label={`Move change ${at + 1} down`} onClick={() => onChange(moved(changes, at, 1))}>↓</button>
            <button type="button" aria-label={`Remove change ${at + 1}`} onClick={() => onChange(changes.filter((_one, place) => place !== at))}>Remove</button>
          </span>
        </li>
      ))}
    </ol>
  );
}

function AddChange({ onAdd }: { onAdd: (change: Change) => void }) {
  const { nodes } = useLive("nodes");
  const [change, setChange] = useState("drain");
  const [value, setValue] = useState("");
  const [problem, setProblem] = useState("");
  const kind = kindOf(change);
  const add = (event: Event) => {
    event.preventDefault();
    const found = problemOf({ change, value });
    setProblem(found);
    if (found) return;
    onAdd({ change, value: kind.long ? value : value.trim() });
    setValue("");
  };
  const offered = kind.nodes ? (nodes?.names ?? []).filter((name) => name.includes(value)).slice(0, OFFERED) : [];
  return (
    <form class="add-change" onSubmit={add} aria-label="Add a change">
      <label>Change{" "}
        <select value={change} onChange={(event) => setChange(event.currentTarget.value)}>
          {KINDS.map((one) => <option key={one.change} value={one.change}>{one.title}</option>)}
        </select>
      </label>
      <label class="wide">{kind.hint}
        {kind.long
          ? <textarea rows={8} spellcheck={false} value={value} placeholder={kind.example} onInput={(event) => setValue(event.currentTarget.value)} />
          : <input value={value} placeholder={kind.example} list="offered-nodes" autocomplete="off" onInput={(event) => setValue(event.currentTarget.value)} />}
      </label>
      <datalist id="offered-nodes">{offered.map((name) => <option key={name} value={name} />)}</datalist>
      <button type="submit">Add</button>
      {problem && <p class="problem" role="alert">{problem}</p>}
    </form>
  );
}

function DoIt({ changes, disabled }: { changes: Change[]; disabled: boolean }) {
  const [asked, setAsked] = useState(false);
  const [doing, setDoing] = useState(false);
  const [done, setDone] = useState<DoReply | null>(null);
  const [error, setError] = useState<unknown>(null);
  const obstacle = obstacleOf(changes);
  const carryOut = async () => {
    setAsked(false);
    setDoing(true);
    setError(null);
    try {
      setDone(await api.carryOut(changes));
    } catch (problem) {
      setError(problem);
    } finally {
      setDoing(false);
    }
  };
  return (
    <>
      <button type="button" class="danger" disabled={changes.length === 0 || disabled || doing || obstacle !== ""} onClick={() => setAsked(true)}>Do it …</button>
      {obstacle && <span class="soft">{obstacle}</span>}
      {doing && <Busy text="Carrying the changes out …" />}
      <ErrorNote error={error} />
      {done && <DoneNote reply={done} />}
      {asked && (
        <Dialog title={`Carry out ${plural(changes.length, "change")}?`} onClose={() => setAsked(false)}>
          <p>This changes the cluster, not a copy of it:</p>
          <ol>{changes.map((change, at) => <li key={at}><Text text={sentenceOf(change)} limit={120} /></li>)}</ol>
          <div class="bar">
            <button type="button" class="danger" onClick={() => void carryOut()}>Do it</button>
            <button type="button" autofocus onClick={() => setAsked(false)}>Cancel</button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function DoneNote({ reply }: { reply: DoReply }) {
  return (
    <div class="note" role="status">
      <p>{outcome(reply)}</p>
      <ul>
        {reply.done.map((line) => <li key={line}><Text text={line} limit={160} /></li>)}
        {reply.failed.map((line) => <li key={line} class="problem">Failed: <Text text={line} limit={300} /></li>)}
      </ul>
    </div>
  );
}
