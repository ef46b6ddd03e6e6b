"""Tables of public traces: each format with a tiny table of its own, and what cannot be read."""

import gzip
from pathlib import Path

import pytest

from mooring.answers.study.study_inputs import fitted_load
from mooring.inputs.trace_formats import AZURE_PACKING, FORMATS, GOOGLE_2019, OPENB, PAI_INSTANCES, PAI_TASKS
from mooring.inputs.trace_reader import TraceError, TracePods, read_trace_nodes, read_trace_pods

S = 1_000_000_000
GPU = "alibabacloud.com/gpu-milli"
OPENB_PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
late,6000,12288,1,460,,LS,Running,30,100,40
first,6000,12288,1,460,,LS,Running,10,50,10
pair,8000,1024,2,1000,V100M16|V100M32,BE,Running,20,,
plain,500,256,0,0,,LS,Running,20,25,
"""
TASKS = """\
job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type
j1,worker,2.0,Terminated,100.0,160.0,600.0,29.296875,50.0,MISC
j2,ps,1.0,Waiting,,,100.0,1.0,,
j3,ps,1.0,Running,120.0,,50,1,200,V100
"""


def table(folder: Path, text: str, name: str = "t.csv") -> str:
    (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(folder / name)


def requests(pods: TracePods) -> list[dict[str, str]]:
    found = [pod.spec.containers[0].resources for pod in pods.pods()]
    return [{name: str(each) for name, each in (one.requests or {}).items()} for one in found if one is not None]


def test_openb_pods_ask_for_shares_of_gpus_and_come_in_the_order_of_time(tmp_path: Path) -> None:
    pods = read_trace_pods(table(tmp_path, OPENB_PODS, "t.csv.gz"), OPENB)
    assert pods.names == ["first", "pair", "plain", "late"]
    assert pods.at_ns == [0, 10 * S, 10 * S, 20 * S]
    assert pods.run_ns == [40 * S, None, 5 * S, 60 * S], "a pod runs from when it was scheduled"
    share, pair, plain, other = requests(pods)
    assert share == other == {"cpu": "6000m", "memory": str(12288 << 20), GPU: "460"}
    assert pair[GPU] == "2000" and GPU not in plain
    found = [pod.metadata.annotations for pod in pods.pods()]
    assert found[0] == {GPU: "460", "alibabacloud.com/gpu-count": "1"}
    assert found[1] == {
        GPU: "1000",
        "alibabacloud.com/gpu-count": "2",
        "alibabacloud.com/gpu-card-model": "V100M16|V100M32",
    }
    assert not found[2]
    one, *_, again = pods.pods()
    assert one.shape is again.shape and len(pods.templates) == 3


def test_openb_nodes_have_gpus_of_a_model(tmp_path: Path) -> None:
    text = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,P100\nn-1,64000,262144,2,P100\nn-2,96000,1024,0,\n"
    first, second, bare = read_trace_nodes(table(tmp_path, text), OPENB)
    assert first.status.allocatable == {
        "cpu": "64000m",
        "memory": str(262144 << 20),
        GPU: "2000",
        "alibabacloud.com/gpu-count": "2",
        "pods": "1000",
    }
    assert first.labels == {"alibabacloud.com/gpu-card-model": "P100", "kubernetes.io/hostname": "n-0"}
    assert (second.name, second.status) == ("n-1", first.status)
    assert "alibabacloud.com/gpu-count" not in (bare.status.allocatable or {})


def test_tasks_of_2020_stand_for_their_instances(tmp_path: Path) -> None:
    pods = read_trace_pods(table(tmp_path, TASKS), PAI_TASKS)
    assert pods.names == ["j1-worker", "j1-worker-1", "j3-ps"], "a task that never began has no pods"
    assert (pods.at_ns, pods.run_ns) == ([0, 0, 20 * S], [60 * S, 60 * S, None])
    assert requests(pods)[1:] == [
        {"cpu": "6000m", "memory": str(int(29.296875 * 2**30)), GPU: "500"},
        {"cpu": "500m", "memory": str(1 << 30), GPU: "2000"},
    ]
    (node,) = read_trace_nodes(table(tmp_path, "m,V100,96,512,8\n"), PAI_TASKS)
    assert node.status.allocatable is not None, "a table without a header has the columns of the format"
    assert (node.name, node.status.allocatable["cpu"], node.status.allocatable[GPU]) == ("m", "96000m", "8000")


def test_instances_of_2020_find_their_requests_in_the_tasks(tmp_path: Path) -> None:
    text = "j1,worker,i,w-a,x,Terminated,7,9,m\nj1,worker,i,w-b,x,Terminated,8,,m\n"
    pods = read_trace_pods(table(tmp_path, text), PAI_INSTANCES, table(tmp_path, TASKS, "tasks.csv"))
    assert (pods.names, pods.at_ns, pods.run_ns) == (["w-a", "w-b"], [0, S], [2 * S, None])
    assert [each[GPU] for each in requests(pods)] == ["500", "500"]
    with pytest.raises(TraceError) as caught:
        read_trace_pods(
            table(tmp_path, "j9,worker,i,w,x,T,7,9,m\n"), PAI_INSTANCES, table(tmp_path, TASKS, "tasks.csv")
        )
    told = f'{tmp_path}/t.csv:1: job_name: Invalid value: "j9 worker": must be a value that {tmp_path}/tasks.csv has'
    assert str(caught.value) == told


def test_azure_vms_are_fractions_of_a_machine_of_a_hundred_cpus(tmp_path: Path) -> None:
    types = "id,vmTypeId,machineId,core,memory,hdd,ssd,nic\n1,5,0,0.125,0.25,,0,0.1\n2,5,1,0.5,0.5,,0,0.1\n"
    vms = "vmId,tenantId,vmTypeId,priority,starttime,endtime\n7,1,5,1,-0.5,0.5\n8,1,5,0,1.5,\n"
    pods = read_trace_pods(table(tmp_path, vms), AZURE_PACKING, table(tmp_path, types, "types.csv"))
    assert requests(pods) == [{"cpu": "12500m", "memory": str(25 << 30)}] * 2, "the first machine of a type counts"
    day = 86400 * S
    assert (pods.at_ns, pods.run_ns) == ([0, 3 * day // 2], [day // 2, None]), "a VM of before the trace is there at 0"
    assert [pod.priority for pod in pods.pods()] == [-1, 0], "0 is the high priority"
    with pytest.raises(TraceError, match="needs a second table with vmTypeId: name it with `types`"):
        read_trace_pods(table(tmp_path, vms), AZURE_PACKING)
    with pytest.raises(TraceError, match="the format azure-packing has no table of nodes"):
        read_trace_nodes(table(tmp_path, vms), AZURE_PACKING)


def test_google_instances_last_from_their_first_submission_to_their_end(tmp_path: Path) -> None:
    text = """\
time,type,collection_id,instance_index,priority,collection_type,resource_request_cpus,resource_request_memory
5000000,0,1,0,200,0,0.01,0.02
6000000,3,1,0,200,0,0.01,0.02
9000000,4,1,0,200,0,0.01,0.02
9500000,SUBMIT,1,0,200,0,0.03,0.02
12000000,6,1,0,200,0,0.01,0.02
7000000,0,1,1,0,0,0.01,0.02
8000000,0,2,0,0,1,0.5,0.5
"""
    pods = read_trace_pods(table(tmp_path, text), GOOGLE_2019)
    assert (pods.names, pods.at_ns, pods.run_ns) == (["1-0", "1-1"], [0, 2 * S], [7 * S, None])
    assert requests(pods)[0] == {"cpu": "1000m", "memory": str(2 << 30)}
    assert [pod.priority for pod in pods.pods()] == [200, 0]
    lines = text.splitlines()
    shuffled = "\n".join([lines[0], *reversed(lines[1:])])
    again = read_trace_pods(table(tmp_path, shuffled), GOOGLE_2019)
    assert (again.names, again.at_ns, again.run_ns) == (pods.names, pods.at_ns, pods.run_ns), "exports have no order"
    late = f"{lines[0]}\n5,0,1,0,0,0,0.1,0.1\n{2**63 - 1},6,1,0,0,0,0.1,0.1\n{2**63 - 1},0,2,0,0,0,0.1,0.1\n"
    stays = read_trace_pods(table(tmp_path, late), GOOGLE_2019)
    assert (stays.names, stays.run_ns) == (["1-0"], [None]), "2^63 - 1 is any time after the trace"
    machines = "time,machine_id,type,capacity_cpus,capacity_memory\n0,9,1,0.5,0.25\n3,9,2,,\n4,9,1,0.5,0.25\n"
    (node,) = read_trace_nodes(table(tmp_path, machines), GOOGLE_2019)
    assert node.status.allocatable == {"cpu": "50000m", "memory": str(25 << 30), "pods": "1000"}


def test_problems_have_their_lines(tmp_path: Path) -> None:
    path = table(tmp_path, OPENB_PODS + "bad,many,1,0,0,,,,0,,\nworse,-1,1,0,0,,,,soon,,\n")
    with pytest.raises(TraceError) as caught:
        read_trace_pods(path, OPENB)
    assert str(caught.value).splitlines() == [
        f'{path}:6: cpu_milli: Invalid value: "many": must be a number from 0',
        f'{path}:7: cpu_milli: Invalid value: "-1": must be a number from 0',
        f'{path}:7: creation_time: Invalid value: "soon": must be a time as a number',
    ]
    with pytest.raises(TraceError, match=r"t\.csv:1: has no column num_gpu; the format openb needs name, cpu_milli"):
        read_trace_pods(table(tmp_path, "name,cpu_milli,memory_mib\n"), OPENB)
    with pytest.raises(TraceError, match=r"^/nowhere\.csv: cannot be read: No such file or directory$"):
        read_trace_nodes("/nowhere.csv", OPENB)


@pytest.mark.parametrize(
    ("header", "published"),
    [
        (
            PAI_TASKS.pods.header,
            "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
        ),
        (
            PAI_INSTANCES.pods.header,
            "job_name,task_name,inst_name,worker_name,inst_id,status,start_time,end_time,machine",
        ),
        (PAI_TASKS.nodes and PAI_TASKS.nodes.header, "machine,gpu_type,cap_cpu,cap_mem,cap_gpu"),
        (AZURE_PACKING.pods.header, "vmId,tenantId,vmTypeId,priority,starttime,endtime"),
        (AZURE_PACKING.pods.join_header, "id,vmTypeId,machineId,core,memory,hdd,ssd,nic"),
    ],
    ids=["tasks of 2020", "instances of 2020", "machines of 2020", "requests for VMs", "types of VMs"],
)
def test_columns_stand_in_the_published_order(header: tuple[str, ...], published: str) -> None:
    assert ",".join(header) == published


def test_every_format_says_where_to_get_it() -> None:
    assert all("github.com/" in each.about and name == each.name for name, each in FORMATS.items())


# ---- fitted loads


def test_a_fitted_load_has_the_pods_and_gaps_of_the_given_one(tmp_path: Path) -> None:
    given = read_trace_pods(table(tmp_path, OPENB_PODS), OPENB)
    drawn = fitted_load(given, 3000, 7)
    assert (drawn.names[0], len(drawn)) == ("fitted-0", 3000)
    assert drawn.at_ns == fitted_load(given, 3000, 7).at_ns and drawn.at_ns != fitted_load(given, 3000, 8).at_ns
    pairs = {*zip(given.which, given.run_ns, strict=True)}
    assert {*zip(drawn.which, drawn.run_ns, strict=True)} == pairs, "requests and run times are drawn together"
    gaps = [late - early for early, late in zip(drawn.at_ns, drawn.at_ns[1:], strict=False)]
    assert {*gaps} == {0, 10 * S}
    shares = [drawn.which.count(which) / 3000 for which in range(3)]
    wanted = [given.which.count(which) / 4 for which in range(3)]
    assert shares == pytest.approx(wanted, abs=0.05)
    assert len(fitted_load(TracePods([]), 5, 1)) == 0
