// The answer of `mooring explain`: scores of the best nodes by plugin, rejections by group, and changes that would place the pod.

import { api } from "../api/client.ts";
import type { Explanation, GroupExplanation, PodAnswer } from "../api/types.ts";
import { useFetched } from "../live/use_live.ts";
import { SERIES } from "../map/colours.ts";
import { Chips, NodeLink, PodNameLink, Text } from "../parts/name.tsx";
import { Busy, ErrorNote } from "../parts/notes.tsx";
import { Table } from "../parts/table.tsx";
import { useTheme } from "../theme.ts";
import { plural, visible } from "../text/visible.ts";

export function ExplanationOf({ namespace, name }: { namespace: string; name: string }) {
  const asked = useFetched<PodAnswer>(`${namespace}/${name}`, (signal) => api.explanation(namespace, name, signal));
  return (
    <>
      <h2>What the scheduler answers now <button type="button" onClick={asked.reload} disabled={asked.loading}>Ask again</button></h2>
      <ErrorNote error={asked.error} retry={asked.reload} />
      {asked.loading && <Busy text="The scheduler decides this pod again, and searches for changes that would place it …" />}
      {asked.value && (asked.value.kind === "PodGroupExplanation" ? <GroupAnswer answer={asked.value} /> : <Answer answer={asked.value} />)}
    </>
  );
}

function verdict(answer: Explanation): string {
  const nodes = plural(answer.nodes, "node");
  const take = `${answer.feasibleNodes.toLocaleString("en")} of ${nodes} take it.`;
  if (answer.placed && answer.node === answer.wouldGoTo) return `It would go to its node again: ${take}`;
  if (answer.placed) return answer.wouldGoTo ? `Decided now, it would go to another node: ${take}` : "Decided now, no node would take it.";
  if (!answer.node && answer.reasons.length === 0) return "The scheduler does not try nodes for it yet.";
  return answer.node ? `It would get a node now: ${take}` : `None of ${nodes} takes it.`;
}

/** How far the chosen node is ahead of the next one, and by which plugins. */
export function lead({ scores, tipped }: Pick<Explanation, "scores" | "tipped">): string {
  if (scores.length < 2) return "";
  const ahead = scores[0].total - scores[1].total;
  if (ahead === 0) return `Its score is that of ${scores[1].node} as well: the scheduler draws between equal nodes.`;
  const plugins = tipped.filter((line) => line.difference !== 0).map((line) => `${line.plugin} ${line.difference > 0 ? "+" : ""}${line.difference}`);
  return `It is ${ahead} ahead of ${scores[1].node} (${scores[0].total} to ${scores[1].total}): ${plugins.join(", ")}.`;
}

function Answer({ answer }: { answer: Explanation }) {
  return (
    <>
      <p>{verdict(answer)} <Text text={lead(answer)} limit={300} /></p>
      {answer.scores.length > 0 && <Scores scores={answer.scores} />}
      {answer.reasons.length > 0 && <Reasons reasons={answer.reasons} />}
      {(answer.cures.length > 0 || !answer.node) && <Cures answer={answer} />}
      {answer.waitsFor.length > 0 && <p>It waits for <Text text={answer.waitsFor.join("; ")} limit={300} />.</p>}
      {answer.victims.length > 0 && <p>Preemption would evict <Chips items={answer.victims} />.</p>}
    </>
  );
}

/** What holds a pod group: how many of its pods there is room for. */
export function groupVerdict(answer: GroupExplanation): string {
  const wanted = answer.gang ? answer.minCount : answer.members;
  if (answer.settled) return "It would get nodes now.";
  if (answer.members < answer.minCount) return `It is pending: ${answer.members} of ${plural(answer.minCount, "pod")} exist.`;
  return `It is pending: there is room for ${answer.fits} of ${plural(wanted, "pod")}.`;
}

function GroupAnswer({ answer }: { answer: GroupExplanation }) {
  return (
    <>
      <p>It is scheduled with its group <Text text={answer.podGroup} />. {groupVerdict(answer)}</p>
      {answer.rejected.map((each) => (
        <section key={each.pods[0]}>
          <p>No room for <Chips items={each.pods} /></p>
          <Reasons reasons={each.reasons} />
        </section>
      ))}
      {!answer.settled && <Cures answer={answer} />}
      {answer.waitsFor.length > 0 && <p>It waits for <Text text={answer.waitsFor.join("; ")} limit={300} />.</p>}
      {answer.victims.length > 0 && <p>Preemption would evict <Chips items={answer.victims} />.</p>}
    </>
  );
}

/** Plugins that tell no node apart from another are left out of the bars: they only make all of them longer. */
export function tellingPlugins(scores: Explanation["scores"]): string[] {
  const plugins = [...new Set(scores.flatMap((line) => Object.keys(line.plugins)))];
  return plugins.filter((plugin) => scores.some((line) => (line.plugins[plugin] ?? 0) !== 0));
}

function Scores({ scores }: { scores: Explanation["scores"] }) {
  const colours = SERIES[useTheme()];
  const plugins = tellingPlugins(scores);
  const most = Math.max(1, ...scores.map((line) => line.total));
  const colourOf = (plugin: string) => colours[plugins.indexOf(plugin) % colours.length];
  return (
    <figure class="scores">
      <figcaption>Scores of the best nodes by plugin, after weights</figcaption>
      <ul class="plot-legend">
        {plugins.map((plugin) => <li key={plugin}><span class="swatch" style={{ background: colourOf(plugin) }} aria-hidden="true" /><Text text={plugin} /></li>)}
      </ul>
      <div class="bars">
        {scores.map((line) => (
          <div class="bar-line" key={line.node}>
            <span class="bar-name"><NodeLink name={line.node} limit={28} /></span>
            <span class="stack" role="img" aria-label={`${line.total} points: ${visible(plugins.map((plugin) => `${plugin} ${line.plugins[plugin] ?? 0}`).join(", "))}`}>
              {plugins.map((plugin) => (
                <span key={plugin} title={visible(`${plugin} ${line.plugins[plugin] ?? 0}`)}
                  style={{ width: `${(100 * Math.max(0, line.plugins[plugin] ?? 0)) / most}%`, background: colourOf(plugin) }} />
              ))}
            </span>
            <span class="numeric">{line.total}</span>
          </div>
        ))}
      </div>
      <details>
        <summary>Scores as a table</summary>
        <Table caption="Scores by plugin" rows={scores} keyOf={(line) => line.node} columns={[
          { title: "Node", head: true, cell: (line) => <NodeLink name={line.node} /> },
          { title: "Total", numeric: true, cell: (line) => line.total },
          ...plugins.map((plugin) => ({ title: plugin, numeric: true, cell: (line: Explanation["scores"][number]) => line.plugins[plugin] ?? 0 })),
        ]} />
      </details>
    </figure>
  );
}

function Reasons({ reasons }: { reasons: Explanation["reasons"] }) {
  const wants = (reason: Explanation["reasons"][number]) => reason.amounts.map((amount) => `${amount.resource}: ${amount.text}`);
  return (
    <>
      <h3>Why not</h3>
      <Table caption="Rejections by reason" rows={reasons} keyOf={(reason) => `${reason.plugin} ${reason.message}`} columns={[
        { title: "Nodes", numeric: true, cell: (reason) => reason.nodes.toLocaleString("en") },
        { title: "Reason", head: true, cell: (reason) => <Text text={reason.message} limit={120} /> },
        { title: "Plugin", cell: (reason) => <Text text={reason.plugin} /> },
        { title: "Details", cell: (reason) => <Text text={[...wants(reason), ...reason.details].join("; ") || "–"} limit={160} /> },
        { title: "For example", cell: (reason) => <span class="chips">{reason.examples.map((node) => <NodeLink name={node} key={node} limit={24} />)}</span> },
      ]} />
    </>
  );
}

function Cures({ answer }: { answer: PodAnswer }) {
  const isGroup = answer.kind === "PodGroupExplanation";
  return (
    <>
      <h3>What would place {isGroup ? "its group" : "it"}</h3>
      <Table caption={`Changes that would place the ${isGroup ? "group" : "pod"}, the smallest first`} rows={answer.cures} keyOf={(cure, at) => `${at} ${cure.change}`}
        empty={`The search found no single change that places this ${isGroup ? "group" : "pod"}.`} columns={[
          { title: "Cost", numeric: true, cell: (cure) => cure.cost },
          { title: "Change", head: true, cell: (cure) => <Text text={cure.change} limit={120} /> },
          { title: "Then it goes to", cell: (cure) => <Text text={cure.node} /> },
          { title: "Evicts", cell: (cure) => (cure.victims.length > 0 ? <span class="chips">{cure.victims.slice(0, 5).map((pod) => <PodNameLink name={pod} key={pod} limit={36} />)}{cure.victims.length > 5 && ` and ${cure.victims.length - 5} more`}</span> : "–") },
          { title: "Breaks budgets", numeric: true, cell: (cure) => cure.brokenBudgets || "–" },
        ]} />
      {answer.curesGaveUp && <p class="soft">The search ended before it had tried everything.</p>}
    </>
  );
}
