"""Admission of a PodGroup that names the template it was made from: the template must be there (PodGroupWorkloadExists)."""

from mooring.api.api_errors import ApiError, forbidden
from mooring.api.json_objects import JsonObject, at
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.apiserver.admission.lookups import Lookups, name_of


def check_template(group: JsonObject, cluster: Lookups) -> None:
    """Refuse a group whose Workload, or the template in it, does not exist. Raises 403, in upstream's words."""
    named = at(group, "spec.podGroupTemplateRef.workload")
    if not named:
        return
    workload_name, template_name = named.get("workloadName", ""), named.get("podGroupTemplateName", "")
    workload = cluster.group_templates(group["metadata"].get("namespace", ""), workload_name)
    if workload is None:
        raise _refused(group, f'Workload "{workload_name}" not found')
    if "deletionTimestamp" in workload["metadata"]:
        raise _refused(group, f'Workload "{workload_name}" is being deleted')
    if template_name not in [template.get("name") for template in workload["spec"].get("podGroupTemplates", ())]:
        raise _refused(group, f'PodGroupTemplate "{template_name}" not found in Workload "{workload_name}"')


def _refused(group: JsonObject, why: str) -> ApiError:
    return forbidden(POD_GROUP.plural, name_of(group), f"PodGroup rejected: {why}", POD_GROUP.group)
