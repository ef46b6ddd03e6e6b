"""Tokens of service accounts (`kubectl create token`): the server signs them, and takes them from clients.

A token is a JWT with upstream's claims, signed with a key that only this server has. It is good until it expires, or until
its service account, or the object that it is bound to, is gone.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

import msgspec

from mooring.api.api_errors import Cause, conflict, field_invalid, invalid
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_KIND
from mooring.api.kinds.configuration import SERVICE_ACCOUNT
from mooring.apiserver.resource_api import ResourceApi
from mooring.kit.clock import NS_PER_S, in_seconds

ISSUER = "https://kubernetes.default.svc.cluster.local"
"""The issuer of tokens, and the audience that the server accepts."""
DEFAULT_S, SHORTEST_S, LONGEST_S = 3600, 600, 1 << 32
"""Parity: how long a token is good if the client does not say, and the bounds of what it may say."""
ADMIN: JsonObject = {"username": "mooring-admin", "groups": ["system:masters", "system:authenticated"]}
"""The user of the token in the kubeconfig."""
_BOUND_KINDS = ("Pod", "Secret", "Node")
_HEADER = {"alg": "HS256", "typ": "JWT"}


@dataclass(frozen=True, slots=True)
class TokenUser:
    """The user of a token, and the audiences that the token is for."""

    info: JsonObject
    audiences: tuple[str, ...] = (ISSUER,)


@dataclass(frozen=True, slots=True)
class ServiceTokens:
    """Issues and reads the tokens of one server. `secret` is the token of the administrator: with a data directory it stays
    the same, and so do the tokens of service accounts."""

    api: ResourceApi
    secret: str = ""

    def issue(self, namespace: str, name: str, request: JsonObject) -> JsonObject:
        """The TokenRequest with its answer. Raises 404, 409, 422."""
        account = self.api.get(SERVICE_ACCOUNT, namespace, name)
        spec = request.get("spec") or {}
        wanted_s = spec.get("expirationSeconds")
        lasts_s = DEFAULT_S if wanted_s is None else wanted_s
        audiences = spec.get("audiences") or [ISSUER]
        bound = spec.get("boundObjectRef")
        faults = [*_expiry_faults(lasts_s), *_bound_faults(bound)]
        if faults:
            raise invalid("TokenRequest", "", faults, "authentication.k8s.io")
        now_ns = self.api.clock.now_ns()
        own: JsonObject = {"namespace": namespace, "serviceaccount": _named(account)}
        if bound:
            own |= {"bound": self._bound(namespace, bound)}
        begins_s = now_ns // NS_PER_S
        claims = {
            "aud": audiences,
            "exp": begins_s + lasts_s,
            "iat": begins_s,
            "iss": ISSUER,
            "jti": self.api.new_uid(),
            "kubernetes.io": own,
            "nbf": begins_s,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        status = {"token": self._signed(claims), "expirationTimestamp": in_seconds(now_ns + lasts_s * NS_PER_S)}
        spec = {**spec, "audiences": audiences, "expirationSeconds": lasts_s}
        head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        return {**head, "metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status}

    def user_of(self, token: str) -> TokenUser | None:
        """The user of a token; None: the token is not one of this server, or not good any more."""
        if not self.secret:
            known = self._service_user(token)
            return TokenUser(ADMIN) if known is None else known
        if hmac.compare_digest(token.encode(errors="replace"), self.secret.encode()):
            return TokenUser(ADMIN)
        return self._service_user(token)

    def _service_user(self, token: str) -> TokenUser | None:
        claims = self._verified(token)
        if claims is None or claims["exp"] <= self.api.clock.now_ns() // NS_PER_S:
            return None
        own = claims["kubernetes.io"]
        namespace, name, uid = own["namespace"], own["serviceaccount"]["name"], own["serviceaccount"]["uid"]
        if not self._is_there(SERVICE_ACCOUNT, namespace, name, uid):
            return None
        bound = own.get("bound")
        if bound and not self._is_there(BY_KIND["v1", bound["kind"]], namespace, bound["name"], bound["uid"]):
            return None
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        return TokenUser({"username": claims["sub"], "uid": uid, "groups": groups}, tuple(claims["aud"]))

    def _is_there(self, kind: KindSpec, namespace: str, name: str, uid: str) -> bool:
        found = self.api.find(kind, namespace, name)
        return found is not None and found["metadata"]["uid"] == uid

    def _bound(self, namespace: str, bound: JsonObject) -> JsonObject:
        """The object that a token is bound to. Raises 404, 409."""
        kind = BY_KIND["v1", bound["kind"]]
        found = self.api.get(kind, namespace, bound.get("name", ""))
        uid = bound.get("uid")
        if uid and uid != found["metadata"]["uid"]:
            why = f"the UID in the bound object reference ({uid}) does not match the UID in record"
            raise conflict(kind.plural, bound["name"], f"{why}. The object might have been deleted and then recreated")
        return {"kind": bound["kind"], **_named(found)}

    # ---- signatures

    def _signed(self, claims: JsonObject) -> str:
        text = f"{_encoded(msgspec.json.encode(_HEADER))}.{_encoded(msgspec.json.encode(claims))}"
        return f"{text}.{_encoded(self._signature(text))}"

    def _signature(self, text: str) -> bytes:
        key = hmac.digest((self.secret or self.api.cluster_id).encode(), b"service account tokens", hashlib.sha256)
        return hmac.digest(key, text.encode(), hashlib.sha256)

    def _verified(self, token: str) -> Any:
        """The claims of a token that this server signed; None for any other text."""
        text, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature.encode(), _encoded(self._signature(text)).encode()):
            return None
        payload = text.partition(".")[2]
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _named(item: JsonObject) -> JsonObject:
    return {"name": item["metadata"]["name"], "uid": item["metadata"]["uid"]}


def _expiry_faults(lasts_s: int) -> list[Cause]:
    path = "spec.expirationSeconds"
    if lasts_s < SHORTEST_S:
        return [field_invalid(path, lasts_s, "may not specify a duration less than 10 minutes")]
    if lasts_s > LONGEST_S:
        return [field_invalid(path, lasts_s, "may not specify a duration larger than 2^32 seconds")]
    return []


def _bound_faults(bound: JsonObject | None) -> list[Cause]:
    if not bound or (bound.get("kind") in _BOUND_KINDS and bound.get("apiVersion") == "v1"):
        return []
    return [field_invalid("spec.boundObjectRef", bound, "must be a Pod, Secret or Node of v1")]
