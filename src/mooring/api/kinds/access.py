"""Authentication and authorization. The embedded server stores RBAC objects, so that manifests with them can be applied, but
does not enforce them. Reviews are posted, answered and not stored.
"""

from mooring.api.kind_spec import POSTED, KindSpec

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
