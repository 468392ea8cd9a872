// Made by scripts/page_types.py from the OpenAPI document (`make web`); changes here are lost.

/** The pod in question, in the units people use for it. */
export interface Asked {
  name: string;
  qos: string;
  cpuMilli: number;
  memory: number;
  devices: Record<string, number>;
}

/** The question that would be asked with a change made: policies, and amounts of the pod (CPUs in thousandths). */
export interface Attempt {
  policy: string | null;
  scope: string | null;
  amounts: Record<string, number>;
}

/** One thing that the pod has by DRA, and in words that no kubelet aligns it. */
export interface ByDra {
  aligned: boolean | null;
  claim: string;
  devices: (Record<string, unknown>)[];
  resources: string[];
  state: "allocated" | "elsewhere" | "open" | "unseen";
  text: string;
}

/** What stands in the way, told by one resource. */
export interface Cause {
  blockedBy: string[];
  resource: string;
  text: string;
  wants: number[][];
}

/** What a resource says to one set of NUMA nodes, what is free to pin there, and what is missing. */
export interface Cell {
  state: "impossible" | "possible" | "preferred";
  freeToPin: number;
  short: number;
}

/** A switch that was moved: when, by whom, from what to what; with a `problem` it was put back. */
export interface Change {
  time: number;
  switch: string;
  before: "close" | "open";
  after: "close" | "open";
  by: string;
  problem: string;
}

/** The nodes that are different now, those that are gone, and what happened meanwhile. `reports` has the `reportedAt` of every other node that was heard of anew, by name. */
export interface Changed {
  serial: number;
  time: number;
  tiles: PackedTile[];
  gone: string[];
  events: Event[];
  reports: Record<string, number>;
}

/** What shall become of an order. */
export interface CommandWish {
  command: "Abort" | "Apply" | "Pause" | "RollBack";
}

/** One container and what it asks for, in Kubernetes' units. */
export interface ContainerView {
  name: string;
  init: boolean;
  requests: Record<string, number>;
  limits: Record<string, number>;
}

/** A core and its threads, as the kernel numbers them, with their socket and last-level cache (None: not told). */
export interface Core {
  cpus: number[];
  socket: number;
  cache: number | null;
}
export type PackedCore = [cpus: number[], socket: number, cache: number | null];
export const unpackedCore = ([cpus, socket, cache]: PackedCore): Core => ({ cpus, socket, cache });

/** What `numaware diagnose --json` would write. */
export interface Diagnosis {
  findings: Told[];
  files: Evidence[];
}

/** One line of a difference. */
export interface DiffLine {
  sign: " " | "+" | "-";
  text: string;
}

/** A device that a DRA driver reports of the node, and the claims that have it; `numa_node` is None where it does not say. */
export interface DraDevice {
  driver: string;
  device: string;
  numaNode: number | null;
  pcieRoots: string[];
  claims: string[];
}

/** Two pods by their places, bytes a second, and how much of that is between NUMA nodes, now and after the plan. */
export interface EdgeReport {
  one: number;
  other: number;
  rate: number;
  across: number;
  planned: number;
}

/** Every answer to openFuyao's console. */
export interface Envelope {
  code: number;
  msg: string;
  data?: SwitchStatus;
}

/** Something that happened, by number in the order of time (milliseconds since 1970). */
export interface Event {
  id: number;
  time: number;
  kind: "admitted" | "gave-up" | "left" | "refused" | "switched" | "waiting";
  pod: string;
  node: string;
  owner: string;
  reason: string;
  message: string;
  change: Change | null;
}

/** What happened, the newest first. */
export interface EventPage {
  items: Event[];
}

/** A file, and what it was taken for, in words. */
export interface Evidence {
  file: string;
  kind: string;
}

/** The answer, and `why` it is no in words. `deciding` is the place of the merge that decided, None where nothing was. `attempts` has one for every change of the explanation, None for what cannot be asked about. */
export interface Explained {
  node: string;
  verdict: "aligned" | "full" | "never" | "refused" | "split";
  why: string;
  policy: string;
  scope: string;
  explanation: Explanation;
  merges: MergeView[];
  deciding: number | null;
  places: Place[];
  attempts: (Attempt | null)[];
}

/** One entry of `numaware explain --json`. */
export interface Explanation {
  admitted: boolean;
  admittedWhenEmpty: boolean;
  changes: Remedy[];
  containers: (Record<string, unknown>)[];
  dra: ByDra[];
  message: string;
  node: string;
  pod: Record<string, string>;
  reason: string;
  warnings: string[];
  why: Cause[];
}

/** How many more such pods kubelets would admit if they came one after the other; `most` is where counting ends. */
export interface Headroom {
  pods: number;
  nodes: number;
  byNode: Record<string, number>;
  most: number;
}

/** The process answers. */
export interface Health {
  status: string;
}

/** What a pod holds of one NUMA node: CPUs, bytes, devices. */
export interface Held {
  pod: string;
  size: number;
  cpus: string;
  devices: string[];
}

/** What is kept of the past: nothing without a `file`. `problem` says why nothing is added just now. `previous` and `next` are the moments of change around the one that was asked about. */
export interface Kept {
  file: string;
  problem: string;
  spans: Span[];
  bytes: number;
  mostBytes: number;
  keepsMs: number;
  previous: number | null;
  next: number | null;
}

/** What the node's kubelet is told; `version` says beside it what a release nobody knows is modelled as. */
export interface Kubelet {
  version: string;
  topologyPolicy: string;
  topologyScope: string;
  topologyOptions: Record<string, string>;
  cpuPolicy: string;
  cpuOptions: Record<string, string>;
  memoryPolicy: string;
  reservedCpus: string;
}

/** The largest pod with so many GPUs that still fits on one NUMA node: most CPUs first, then memory. */
export interface Largest {
  gpus: number;
  cpus: number;
  memory: number;
  node: string;
  numa: number;
}

/** Whether somebody measures, and whom: the state of the Prometheus (`message` tells what is wrong with it), what its clock shows, how many exporters of NUMA metrics it knows, which of them do not answer, and the nodes it has series of. */
export interface Measured {
  state: "answers" | "failed" | "late" | "none" | "unreachable" | "unreadable";
  message: string;
  time: number;
  exporters: number;
  down: string[];
  nodes: string[];
  tooRemote: number;
}

/** One merge: resources by sets of NUMA nodes, and what came out. `container` is empty for a whole pod. */
export interface MergeView {
  container: string;
  policy: string;
  masks: number[][];
  allMasks: number;
  rows: Row[];
  merged: ("agreed" | "beaten" | "chosen" | "dropped" | "empty")[];
  best: number[] | null;
  preferred: boolean;
  admitted: boolean;
}

/** A pod that was moved: when (seconds since 1970), where, and what its group was to save and has saved since. `before`, `planned` and `after` are bytes a second that the pod itself exchanges with other NUMA nodes: when it was moved, as the plan foresaw, and since. `measured` and `after` are None until they were measured. */
export interface Move {
  uid: string;
  namespace: string;
  name: string;
  at: number;
  target: number;
  predicted: number;
  measured: number | null;
  before: number;
  planned: number;
  after: number | null;
}

/** A move that was made, and on which node. */
export interface MovedPod {
  node: string;
  move: Move;
}

/** One node's answer; `why` tells its reasons in words. */
export interface NodeAnswer {
  node: string;
  verdict: "aligned" | "full" | "never" | "refused" | "split";
  policy: string;
  scope: string;
  numa: number[];
  reasons: Reason[];
  why: string;
  stranded: number;
  strips: PackedStrip[];
}

/** A device, on which NUMA nodes it is, and the pod that holds it. */
export interface NodeDevice {
  id: string;
  resource: string;
  numa: number[];
  healthy: boolean;
  pod: string;
  left: number | null;
}

/** A node after its kubelet was drained of its state and restarted: which of its pods would not come back. Of `owning` pods, those with something of their own, so many are aligned before and after. */
export interface NodeOutcome {
  node: string;
  pods: number;
  refused: string[];
  problem: string;
  alignedBefore: number;
  alignedAfter: number;
  owning: number;
}

/** Nodes in order of name; `continue` is empty on the last page. */
export interface NodePage {
  items: Summary[];
  total: number;
  continue: string;
}

/** Where one node stands with an order: at which step of how many, and why; not `current` if with an earlier one. */
export interface NodeProgress {
  node: string;
  phase: "Done" | "Failed" | "NotAllowed" | "Pending" | "Refused" | "RolledBack" | "Switching";
  current: boolean;
  step: number;
  steps: number;
  message: string;
}

/** One node at one moment (`at`, seconds since 1970). `moving`: whether pods are moved at present; `silent` talk to nobody. `total`, `across` and `planned` are bytes a second: all talk, that between NUMA nodes, and what of it the plan leaves. `between` has them for every two of the NUMA nodes in `numa`. */
export interface NodeReport {
  node: string;
  mode: "cgroup" | "modelled" | "nri" | "observe";
  moving: boolean;
  at: number;
  numa: number[];
  between: number[][];
  pods: PodReport[];
  edges: EdgeReport[];
  moves: Move[];
  total: number;
  across: number;
  planned: number;
  talking: number;
  silent: number;
  troubles: string[];
}

/** One node in a list; amounts are bytes a second, `moves` so many pods that should move. */
export interface NodeTalk {
  node: string;
  mode: "cgroup" | "modelled" | "nri" | "observe";
  moving: boolean;
  stale: boolean;
  at: number;
  numa: number;
  talking: number;
  total: number;
  across: number;
  planned: number;
  moves: number;
}

/** One node in full. */
export interface NodeTraffic {
  report: NodeReport;
  pods: TalkingPod[];
  mode: string;
  stale: boolean;
  source: "inferred" | "measured" | "modelled" | "reported";
  time: number;
}

/** All that is known of a node. `caches` are the bytes of each last-level cache, 0 if nobody told, by the number that cores have. `poolCpus` counts the CPUs that pods share, `linksKnown` tells whether more is known of devices than their NUMA nodes. `links` has a row for each of `devices` and says how close it is to each of them, in nvidia-smi's words: X is the device itself, the empty word not known. It is empty where there are too many devices for a table. `dra` are devices that DRA drivers report of the node, which are none of its kubelet's. */
export interface NodeView {
  summary: Summary;
  kubelet: Kubelet;
  labels: Record<string, string>;
  taints: string[];
  unschedulable: boolean;
  numa: NumaView[];
  caches: number[];
  sharedCpus: string;
  poolCpus: number;
  devices: NodeDevice[];
  links: string[][];
  linksKnown: boolean;
  pods: PodOnNode[];
  largest: Largest[];
  events: Event[];
  dra: DraDevice[];
  time: number;
}

/** One NUMA node over time: CPUs in use (owned, or asked for in the shared pool) and memory in use, in thousandths. */
export interface NumaSeries {
  numa: number;
  cpus: number;
  cpu: (number | null)[];
  memory: (number | null)[];
}

/** One NUMA node; sizes in bytes. `managed` tells whether the Memory Manager looks after its memory. Every CPU is one that `held` names, one of `reservedCpus` or one of `freeToPinCpus`, which a new pod could own. */
export interface NumaView {
  id: number;
  cores: PackedCore[];
  cpus: string;
  reservedCpus: string;
  freeToPinCpus: string;
  memory: number;
  freeToPinMemory: number;
  memoryReserved: number;
  managed: boolean;
  held: Held[];
  gpus: number;
  freeToPinDevices: string[];
  hugepages: Record<string, [number, number]>;
  distances: number[];
}

/** The headline numbers of the cluster, for one shape of pod. */
export interface Numbers {
  name: string;
  kind: "cluster" | "lab";
  time: number;
  serial: number;
  nodes: number;
  pods: number;
  waiting: number;
  pinned: number;
  aligned: number;
  refusals: number;
  refusalBuckets: number[];
  bucketMs: number;
  lately: number;
  storm: Storm | null;
  verdicts: Record<string, number>;
  stranded: Stranded;
  largest: Largest[];
  largestAlike: Largest | null;
  stale: number;
  oldest: string;
  oldestAgeMs: number;
}

/** One order: what is wanted of which nodes (`selector`, none means all), what was commanded last, and how far it is. */
export interface Order {
  name: string;
  command: "Abort" | "Apply" | "Pause" | "RollBack";
  wanted: string[];
  selector: string[];
  mostAway: number;
  drain: boolean;
  done: number;
  failed: number;
  waiting: number;
  switching: number;
  nodes: NodeProgress[];
}

/** A kubelet policy for a pool, whose name is given twice: `confirm` is typed by whoever orders it. */
export interface OrderWish {
  pool: string;
  policy: "best-effort" | "none" | "restricted" | "single-numa-node";
  scope: "container" | "pod";
  confirm: string;
  drain: boolean;
}

/** All orders by name; `locked` says why none may be given or changed from here. */
export interface Orders {
  orders: Order[];
  locked: string;
}

/** What the pod would have of one NUMA node: CPUs, bytes, devices. Of a pod that is not admitted it is what that NUMA node alone could give, and `alone` the amounts of that by resource. */
export interface Place {
  numa: number;
  cpus: string;
  memory: number;
  devices: string[];
  alone: Record<string, number>;
}

/** How a pod was placed: when, what was predicted then (None where nobody predicted), and what the kubelet did. What nodes would say if it came now is another question (`/api/v1/whatif`). */
export interface Placed {
  at: number;
  predicted: ZoneView[] | null;
  observed: ZoneView[] | null;
}

/** A pod of the node. `gpus` counts those of its devices that are GPUs. `slot` is its letter (0 is A) as long as it lives there, None for one that owns nothing. `lostAtRestart` is what the kubelet would say to it if it were started again now, empty if the pod would stay. */
export interface PodOnNode {
  pod: string;
  uid: string;
  slot: number | null;
  qos: string;
  cpus: string;
  cpuMilli: number;
  memory: number;
  devices: Record<string, string[]>;
  gpus: number;
  numa: number[];
  aligned: boolean;
  since: number;
  predicted: boolean | null;
  lostAtRestart: string;
}

/** Pods in order; see `NodePage`. */
export interface PodPage {
  items: PodSummary[];
  total: number;
  continue: string;
}

/** A pod that talks: the NUMA nodes it is confined to (none while it floats), its group, and what becomes of it. */
export interface PodReport {
  namespace: string;
  name: string;
  numa: number[];
  group: number;
  answer: "cooling-down" | "move" | "no-gain" | "no-room" | "not-chosen" | "one-numa-node" | "pinned" | "silent" | "together";
  target: number | null;
  saving: number;
}

/** A pod in a list. `aligned` is None for one that owns nothing; `predicted` None where nobody predicted. */
export interface PodSummary {
  namespace: string;
  name: string;
  uid: string;
  owner: string;
  phase: "Pending" | "Running";
  node: string;
  qos: string;
  cpuMilli: number;
  memory: number;
  devices: Record<string, number>;
  gpus: number;
  numa: number[];
  aligned: boolean | null;
  predicted: boolean | null;
  since: number;
  message: string;
}

/** All that is known of a pod; `placed` is None as long as it waits. */
export interface PodView {
  summary: PodSummary;
  scheduler: string;
  containers: ContainerView[];
  cpus: string;
  devices: Record<string, string[]>;
  placed: Placed | null;
  fewestNuma: number | null;
  events: Event[];
}

/** The cluster at one moment; `alignedPermille` of the pods that own something. */
export interface Point {
  time: number;
  pods: number;
  waiting: number;
  alignedPermille: number;
  refusals: number;
}

/** Switches, pools, orders to kubelets and history, how all that is known and when it was read. `undo` is how the switch that was moved last stood before, None where that cannot be had again. */
export interface Policies {
  switches: Switch[];
  pools: Pool[];
  orders: Orders;
  changes: Change[];
  undo: "close" | "open" | null;
  source: "inferred" | "measured" | "modelled" | "reported";
  time: number;
}

/** What the policy would mean, node by node; `diff` is what kubelets would be told, most of them being as the pool is. */
export interface PolicyAnswer {
  pool: string;
  diff: DiffLine[];
  nodes: NodeOutcome[];
  pods: number;
  refused: number;
  alignedBefore: number;
  alignedAfter: number;
  owning: number;
}

/** A kubelet policy to try on a pool; nothing is changed. */
export interface PolicyWish {
  pool: string;
  policy: "best-effort" | "none" | "restricted" | "single-numa-node";
  scope: "container" | "pod";
}

/** Nodes that belong together, and the kubelet policy that most of them have. */
export interface Pool {
  name: string;
  nodes: number;
  policy: string;
  scope: string;
  mixed: boolean;
}

/** What happened; `detail` says it in a sentence, `hint` what would help. */
export interface Problem {
  title: string;
  status: number;
  detail: string;
  hint: string;
  type: string;
}

/** How far a switch that is being moved has come: of the pods that restart, or the nodes that change, how many are ready. */
export interface Progress {
  stage: "restarting" | "switching" | "undoing" | "writing";
  ready: number;
  wanted: number;
}

/** A pod, in one of three ways: a shape, a manifest (YAML or JSON), or the name of a pod of the cluster. The policies, where given, are tried in place of those that nodes have; `node` is for explanations. */
export interface Question {
  shape: Shape | null;
  manifest: string;
  pod: string;
  node: string;
  policy: "best-effort" | "none" | "restricted" | "single-numa-node" | null;
  scope: "container" | "pod" | null;
}

/** A line of a file. */
export interface Quote {
  file: string;
  line: number;
  text: string;
}

/** One thing that stands in the way, in parts, so that a page can say it in any language. `only-on`: the amount is free to pin only on these NUMA nodes. `short-on-every`: every NUMA node lacks at least `amount`. `short-on-node`: the whole node lacks `amount`. `too-small`: the empty machine lacks it. Else `text` tells. */
export interface Reason {
  code: "only-on" | "outside" | "policy" | "short-on-every" | "short-on-node" | "too-small";
  resource: string;
  numa: number[];
  amount: number;
  text: string;
}

/** Refusals over all the time that is kept, in steps from `fromMs` on, each with its end; None where nobody looked. */
export interface Refusals {
  fromMs: number;
  stepMs: number;
  counts: (number | null)[];
}

/** A change that would have it admitted; `patch` is JSON. */
export interface Remedy {
  kind: "evict" | "option" | "policy" | "request";
  patch: unknown;
  text: string;
}

/** A run with its history. Waiting is from a pod's arrival to its admission, of the pods that were placed. */
export interface Result {
  run: Run;
  cluster: string;
  trace: string;
  nodes: number;
  series: Sample[];
  refusalsByReason: Record<string, number>;
  storms: Storm[];
  waitMeanMs: number;
  waitMostMs: number;
  tiles: SimulateTile[];
  talk: Talk;
}

/** How many more such pods there is room for, and the largest pods that fit on one NUMA node. */
export interface Room {
  headroom: Headroom;
  largest: Largest[];
}

/** One resource that has a say. */
export interface Row {
  resource: string;
  wanted: number;
  cells: Cell[];
}

/** One policy with one seed. Allocation is what placed pods had asked for when the last pod had arrived. `aligned_percent` is of the placed pods that own CPUs, memory or devices: those on no more NUMA nodes than they need. `stranded_percent` is the free GPU capacity (CPU in a cluster without GPUs) that the pods of the trace cannot use, of all there is. `placed_by_size` has for each number of GPUs that pods want (`share` for a part of one) how many were placed, and how many came. */
export interface Run {
  policy: string;
  seed: number;
  podsTotal: number;
  podsPlaced: number;
  kubeletRefusals: number;
  alignedPercent: number;
  crossNumaPods: number;
  cpuAllocatedPercent: number;
  memoryAllocatedPercent: number;
  deviceAllocatedPercent: Record<string, number>;
  strandedPercent: number;
  decisionsPerSecond: number;
  unplacedByReason: Record<string, number>;
  placedBySize: Record<string, [number, number]>;
}

/** The cluster at one moment. `arrived_percent` is what arrived pods asked for, of the cluster's GPUs (or CPUs). */
export interface Sample {
  timeMs: number;
  arrived: number;
  arrivedPercent: number;
  placed: number;
  running: number;
  pending: number;
  refusals: number;
  cpuPercent: number;
  memoryPercent: number;
  devicePercent: number;
  strandedPercent: number;
}

/** What was recorded: the cluster as a whole, and one node by NUMA nodes, at the same moments. */
export interface Series {
  node: string;
  fromMs: number;
  toMs: number;
  keptFromMs: number;
  stepMs: number;
  times: number[];
  cluster: (Point | null)[];
  numa: NumaSeries[];
  source: "built-in recorder" | "history file";
}

/** One Guaranteed container of these amounts. */
export interface Shape {
  cpu: string;
  memory: string;
  gpu: number;
  gpuResource: string;
}

/** One node when the last pod had arrived, for a wall of nodes: used and all, in parts of a thousand. */
export interface SimulateTile {
  node: string;
  pods: number;
  cpu: number;
  memory: number;
  device: number | null;
  stranded: number;
}

/** A comparison: how far it is, and the results so far. */
export interface Simulation {
  id: number;
  state: "done" | "failed" | "running";
  wish: SimulationWish;
  results: Result[];
  problem: string;
}

/** Which schedulers to compare on the cluster's machines, empty, and how many pods come. */
export interface SimulationWish {
  policies: string[];
  pods: number;
  seed: number;
}

/** The latest first, and the schedulers there are. */
export interface Simulations {
  items: Simulation[];
  policies: string[];
}

/** A stretch of time without a break, in milliseconds since 1970. */
export interface Span {
  fromMs: number;
  toMs: number;
}

/** Refusals of one owner's pods, none later than `WINDOW` after the one before it. `nodes` are those that refused, most refusals first; `reason` is the most frequent; `since` and `last` are the times of the first refusal and of the last so far; `fix` is what would end it, where somebody has worked that out. */
export interface Storm {
  owner: string;
  nodes: string[];
  count: number;
  since: number;
  last: number;
  reason: string;
  fix: string[];
}

/** What borders between NUMA nodes keep from pods of a shape. */
export interface Stranded {
  pods: number;
  nodes: number;
  cpus: number;
  gpus: number;
}

/** One NUMA node of a tile: CPUs in all, of the system, owned by pods, asked for in the shared pool; memory used in thousandths; GPUs in all and in use; CPUs that a new pod could own. */
export interface Strip {
  id: number;
  cpus: number;
  reserved: number;
  exclusive: number;
  shared: number;
  memory: number;
  gpus: number;
  gpusUsed: number;
  freeToPin: number;
}
export type PackedStrip = [id: number, cpus: number, reserved: number, exclusive: number, shared: number, memory: number, gpus: number, gpusUsed: number, freeToPin: number];
export const unpackedStrip = ([id, cpus, reserved, exclusive, shared, memory, gpus, gpusUsed, freeToPin]: PackedStrip): Strip => ({ id, cpus, reserved, exclusive, shared, memory, gpus, gpusUsed, freeToPin });

/** What a finding is about: a Pod, a Node, a Kubelet, a KubeletConfiguration, a File; empty where not known. */
export interface Subject {
  kind: string;
  namespace: string;
  name: string;
  uid: string;
  node: string;
}

/** A node in a list. What is free has two names: *free to pin* is what a new pod could own, by the kubelet's managers; *not requested* is what a scheduler that counts per node has left to give away. */
export interface Summary {
  name: string;
  pool: string;
  policy: string;
  scope: string;
  pods: number;
  cpus: number;
  memory: number;
  devices: Record<string, number>;
  gpus: number;
  allocatableCpus: number;
  freeToPinCpus: number;
  freeToPinDevices: Record<string, number>;
  freeToPinGpus: number;
  notRequestedCpus: number;
  notRequestedMemory: number;
  numa: PackedStrip[];
  refusals: number;
  storm: boolean;
  stale: boolean;
  source: "inferred" | "measured" | "modelled" | "reported";
  reportedAt: number;
}

/** One of openFuyao's policies. `conf` is what it is written in. `missing` says which part of it is not here at all, `broken` why a part that should be here cannot be used as it is. One that is `locked` is here, and `missing` is the right to move it. */
export interface Switch {
  id: string;
  status: "close" | "open";
  missing: string;
  place: string;
  conf: string;
  broken: string;
  progress: Progress | null;
  locked: boolean;
}

/** The switch as it stands now, and what differs (or would differ). */
export interface SwitchAnswer {
  switch: Switch;
  changed: boolean;
  diff: DiffLine[];
  added: number;
  removed: number;
}

/** One of openFuyao's switches; `reason` says why it cannot be used, or could not be moved. */
export interface SwitchStatus {
  plugin: string;
  status: "close" | "open";
  installed: boolean;
  reason: string;
}

/** How a switch should stand; with `dryRun` nothing is changed. */
export interface SwitchWish {
  status: "close" | "open";
  dryRun: boolean;
}

/** What services on all nodes said to each other when the last pod had arrived, modelled, in bytes a second. `across` is between NUMA nodes, `planned` what is left of it when agents have made their `moves`. */
export interface Talk {
  total: number;
  across: number;
  planned: number;
  moves: number;
}

/** All nodes together at one moment, in bytes a second. */
export interface TalkMoment {
  time: number;
  total: number;
  across: number;
  planned: number;
}

/** A pod and what becomes of it, in the reader's language as well. */
export interface TalkingPod {
  pod: PodReport;
  reason: string;
}

/** One node of the wall, as short as it can be told; `verdict` is a place in the list of verdicts. `numa` is where the pod would lie. `reportedAt` is when the node was last heard of, 0 for one whose state is current as long as nothing else is told. Tiles of a lower `rank` come first where the worst does. */
export interface Tile {
  name: string;
  pool: string;
  policy: string;
  verdict: number;
  stranded: number;
  refusals: number;
  storm: boolean;
  stale: boolean;
  strips: PackedStrip[];
  numa: number[];
  source: "inferred" | "measured" | "modelled" | "reported";
  reportedAt: number;
  rank: number;
}
export type PackedTile = [name: string, pool: string, policy: string, verdict: number, stranded: number, refusals: number, storm: boolean, stale: boolean, strips: PackedStrip[], numa: number[], source: "inferred" | "measured" | "modelled" | "reported", reportedAt: number, rank: number];
export const unpackedTile = ([name, pool, policy, verdict, stranded, refusals, storm, stale, strips, numa, source, reportedAt, rank]: PackedTile): Tile => ({ name, pool, policy, verdict, stranded, refusals, storm, stale, strips, numa, source, reportedAt, rank });

/** A finding in words. */
export interface Told {
  cause: string;
  code: string;
  confidence: "certain" | "likely" | "possible";
  evidence: Quote[];
  facts: Record<string, unknown>;
  fix: string[];
  severity: "error" | "info" | "warning";
  subject: Subject;
  title: string;
}

/** Nodes of which an agent reports, those first where most could be saved; the latest moves first. Sums leave out nodes whose reports are stale, and `time` is the oldest moment that they count. `missing` says what keeps agents from being heard. */
export interface Traffic {
  nodes: NodeTalk[];
  moves: MovedPod[];
  moments: TalkMoment[];
  total: number;
  across: number;
  planned: number;
  source: "inferred" | "measured" | "modelled" | "reported";
  time: number;
  missing: string;
}

/** All nodes, packed. */
export interface Wall {
  serial: number;
  time: number;
  verdicts: ("aligned" | "full" | "never" | "refused" | "split")[];
  staleAfterMs: number;
  tiles: PackedTile[];
}

/** All answers, and kube-scheduler's own summary of them; `telling` is the node whose answer tells most. They are of the moment `time`, whenever the pod came: one that is on a node is asked about as if it came then. */
export interface WhatIf {
  pod: Asked;
  message: string;
  verdicts: Record<string, number>;
  nodes: NodeAnswer[];
  telling: string;
  serial: number;
  time: number;
}

/** What a pod has of one NUMA node. */
export interface ZoneView {
  numa: number;
  cpus: string;
  amounts: Record<string, number>;
}

export interface _Wish {
  status: string;
}
