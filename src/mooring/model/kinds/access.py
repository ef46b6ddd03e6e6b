"""Who may do what: kinds that are kept so that manifests which bring them can be applied, and reviews that are answered."""

from mooring.model.kind_spec import POSTED, KindSpec

_RBAC = ("rbac.authorization.k8s.io", "v1")
_AUTHENTICATION, _AUTHORIZATION = ("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1")

CLUSTER_ROLE = KindSpec(*_RBAC, "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDING = KindSpec(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", False)
ROLE = KindSpec(*_RBAC, "roles", "Role")
ROLE_BINDING = KindSpec(*_RBAC, "rolebindings", "RoleBinding")

SELF_SUBJECT_REVIEW = KindSpec(*_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", False, verbs=POSTED)
TOKEN_REVIEW = KindSpec(*_AUTHENTICATION, "tokenreviews", "TokenReview", False, verbs=POSTED)
SELF_SUBJECT_ACCESS_REVIEW = KindSpec(
    *_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=POSTED
)
SELF_SUBJECT_RULES_REVIEW = KindSpec(
    *_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", False, verbs=POSTED
)
SUBJECT_ACCESS_REVIEW = KindSpec(*_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", False, verbs=POSTED)
