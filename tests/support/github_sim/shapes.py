"""Users, repositories, issues, pulls, comments and reviews as GitHub's description wants them: every required field."""

from __future__ import annotations

import base64
import re
from typing import Any

from .world import Comment, Issue, Repo, Review, ReviewComment, World

TEMPLATES = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}
EMOJI = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


def node_id(kind: str, number: object) -> str:
    """An opaque id of GitHub's look."""
    return f"{kind}_kw" + base64.urlsafe_b64encode(f"{kind}:{number}".encode()).decode().rstrip("=")


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class Shapes:
    """Builds response bodies. `api` and `html` are the base URLs without a trailing slash."""

    def __init__(self, world: World, api: str, html: str) -> None:
        self.world, self.api, self.html = world, api, html

    def url(self, repo: Repo, rest: str = "") -> str:
        return f"{self.api}/repos/{repo.full_name}{rest}"

    def page(self, repo: Repo, rest: str = "") -> str:
        return f"{self.html}/{repo.full_name}{rest}"

    # ---------------------------------------------------------------- users

    def user(self, login: str | None) -> dict[str, Any] | None:
        """simple-user; None for the ghost of a deleted account."""
        if login is None:
            return None
        user = self.world.user(login)
        me = f"{self.api}/users/{user.login.replace('[', '%5B').replace(']', '%5D')}"
        page = f"{self.html}/" + (f"apps/{user.login.removesuffix('[bot]')}" if user.type == "Bot" else user.login)
        return {
            "login": user.login,
            "id": user.id,
            "node_id": node_id("U", user.id),
            "avatar_url": f"{self.html}/avatars/u/{user.id}?v=4",
            "gravatar_id": "",
            "url": me,
            "html_url": page,
            "followers_url": me + "/followers",
            "following_url": me + "/following{/other_user}",
            "gists_url": me + "/gists{/gist_id}",
            "starred_url": me + "/starred{/owner}{/repo}",
            "subscriptions_url": me + "/subscriptions",
            "organizations_url": me + "/orgs",
            "repos_url": me + "/repos",
            "events_url": me + "/events{/privacy}",
            "received_events_url": me + "/received_events",
            "type": user.type,
            "user_view_type": "public",
            "site_admin": user.site_admin,
        }

    def public_user(self, login: str) -> dict[str, Any]:
        return {
            **(self.user(login) or {}),
            "name": None,
            "company": None,
            "blog": "",
            "location": None,
            "email": None,
            "hireable": None,
            "bio": None,
            "twitter_username": None,
            "public_repos": 1,
            "public_gists": 0,
            "followers": 0,
            "following": 0,
            "created_at": "2020-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
        }

    # ---------------------------------------------------------------- repositories

    def minimal_repo(self, repo: Repo) -> dict[str, Any]:
        return {
            "id": repo.id,
            "node_id": node_id("R", repo.id),
            "name": repo.name,
            "full_name": repo.full_name,
            "private": repo.private,
            "owner": self.user(repo.owner),
            "html_url": self.page(repo),
            "description": repo.description,
            "fork": repo.parent is not None,
            "url": self.url(repo),
            **{key: self.url(repo, rest) for key, rest in TEMPLATES.items()},
        }

    def repo(self, repo: Repo) -> dict[str, Any]:
        """Repository as it stands inside pulls and events."""
        opened = sum(1 for i in repo.issues.values() if i.state == "open")
        return {
            **self.minimal_repo(repo),
            "created_at": "2024-01-01T00:00:00Z",
            "updated_at": self.world.now(),
            "pushed_at": self.world.now(),
            "git_url": f"git://{self.html.partition('//')[2]}/{repo.full_name}.git",
            "ssh_url": f"git@{self.html.partition('//')[2]}:{repo.full_name}.git",
            "clone_url": self.page(repo, ".git"),
            "svn_url": self.page(repo),
            "homepage": None,
            "size": 108,
            "stargazers_count": 0,
            "watchers_count": 0,
            "language": "Python",
            "has_issues": repo.issues_enabled,
            "has_projects": True,
            "has_downloads": True,
            "has_wiki": True,
            "has_pages": False,
            "has_discussions": False,
            "forks_count": 0,
            "mirror_url": None,
            "archived": False,
            "disabled": False,
            "open_issues_count": opened,
            "license": None,
            "allow_forking": True,
            "is_template": False,
            "web_commit_signoff_required": False,
            "topics": [],
            "visibility": "private" if repo.private else "public",
            "forks": 0,
            "open_issues": opened,
            "watchers": 0,
            "default_branch": repo.default_branch,
        }

    def full_repo(self, repo: Repo) -> dict[str, Any]:
        return {**self.repo(repo), "network_count": 0, "subscribers_count": 1}

    # ---------------------------------------------------------------- issues and comments

    def label(self, repo: Repo, name: str) -> dict[str, Any]:
        known = repo.labels.setdefault(
            name,
            {"id": self.world.next_id("label", 3001), "color": "ededed", "description": None, "default": False},
        )
        return {
            "id": known["id"],
            "node_id": node_id("LA", known["id"]),
            "url": self.url(repo, "/labels/" + _quote(name)),
            "name": name,
            "color": known["color"],
            "default": known["default"],
            "description": known["description"],
        }

    def reactions(self, repo: Repo, kind: str, number: int, url: str) -> dict[str, Any]:
        given = [r["content"] for r in repo.reactions.get((kind, number), [])]
        return {
            "url": url + "/reactions",
            "total_count": len(given),
            **{name: given.count(name) for name in EMOJI},
        }

    def issue(self, repo: Repo, issue: Issue) -> dict[str, Any]:
        url = self.url(repo, f"/issues/{issue.number}")
        kind = "pull" if issue.pull else "issues"
        body = {
            "url": url,
            "repository_url": self.url(repo),
            "labels_url": url + "/labels{/name}",
            "comments_url": url + "/comments",
            "events_url": url + "/events",
            "html_url": self.page(repo, f"/{kind}/{issue.number}"),
            "id": issue.id,
            "node_id": node_id("I", issue.id),
            "number": issue.number,
            "title": issue.title,
            "user": self.user(issue.user),
            "labels": [self.label(repo, name) for name in issue.labels],
            "state": issue.state,
            "state_reason": None if issue.state == "open" else "completed",
            "locked": False,
            "assignee": None,
            "assignees": [],
            "milestone": None,
            "comments": len(issue.comments),
            "created_at": issue.created_at,
            "updated_at": issue.updated_at,
            "closed_at": issue.closed_at,
            "author_association": issue.association or self.world.association(repo, issue.user),
            "active_lock_reason": None,
            "body": issue.body,
            "closed_by": None,
            "reactions": self.reactions(repo, "issue", issue.number, url),
            "timeline_url": url + "/timeline",
            "performed_via_github_app": None,
        }
        if issue.pull:
            body["draft"] = issue.pull.draft
            body["pull_request"] = {
                "url": self.url(repo, f"/pulls/{issue.number}"),
                "html_url": self.page(repo, f"/pull/{issue.number}"),
                "diff_url": self.page(repo, f"/pull/{issue.number}.diff"),
                "patch_url": self.page(repo, f"/pull/{issue.number}.patch"),
                "merged_at": issue.pull.merged_at,
            }
        return body

    def comment(self, repo: Repo, issue: Issue, comment: Comment) -> dict[str, Any]:
        url = self.url(repo, f"/issues/comments/{comment.id}")
        kind = "pull" if issue.pull else "issues"
        return {
            "url": url,
            "html_url": self.page(repo, f"/{kind}/{issue.number}#issuecomment-{comment.id}"),
            "issue_url": self.url(repo, f"/issues/{issue.number}"),
            "id": comment.id,
            "node_id": node_id("IC", comment.id),
            "user": self.user(comment.user),
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "author_association": comment.association or self.world.association(repo, comment.user),
            "body": comment.body,
            "reactions": self.reactions(repo, "comment", comment.id, url),
            "performed_via_github_app": None,
        }

    # ---------------------------------------------------------------- pulls and reviews

    def side(self, repo: Repo | None, owner: str, ref: str, sha: str) -> dict[str, Any]:
        return {
            "label": f"{owner}:{ref}",
            "ref": ref,
            "sha": sha,
            "user": self.user(owner) if repo else None,
            "repo": self.repo(repo) if repo else None,
        }

    def pull_simple(self, repo: Repo, issue: Issue) -> dict[str, Any]:
        pull = issue.pull
        assert pull is not None
        url = self.url(repo, f"/pulls/{issue.number}")
        page = self.page(repo, f"/pull/{issue.number}")
        links = {
            "self": url,
            "html": page,
            "issue": self.url(repo, f"/issues/{issue.number}"),
            "comments": self.url(repo, f"/issues/{issue.number}/comments"),
            "review_comments": url + "/comments",
            "review_comment": self.url(repo, "/pulls/comments{/number}"),
            "commits": url + "/commits",
            "statuses": self.url(repo, f"/statuses/{pull.head_sha}"),
        }
        head = self.world.find(pull.head_repo) if pull.head_repo else None
        return {
            "url": url,
            "id": pull.id,
            "node_id": node_id("PR", pull.id),
            "html_url": page,
            "diff_url": page + ".diff",
            "patch_url": page + ".patch",
            "issue_url": links["issue"],
            "number": issue.number,
            "state": issue.state,
            "locked": False,
            "title": issue.title,
            "user": self.user(issue.user),
            "body": issue.body,
            "created_at": issue.created_at,
            "updated_at": issue.updated_at,
            "closed_at": issue.closed_at,
            "merged_at": pull.merged_at,
            "merge_commit_sha": pull.merge_commit_sha,
            "assignee": None,
            "assignees": [],
            "requested_reviewers": [],
            "requested_teams": [],
            "labels": [self.label(repo, name) for name in issue.labels],
            "milestone": None,
            "draft": pull.draft,
            "commits_url": links["commits"],
            "review_comments_url": links["review_comments"],
            "review_comment_url": links["review_comment"],
            "comments_url": links["comments"],
            "statuses_url": links["statuses"],
            "head": self.side(head, pull.head_owner, pull.head_ref, pull.head_sha),
            "base": self.side(repo, repo.owner, pull.base_ref, pull.base_sha),
            "_links": {key: {"href": value} for key, value in links.items()},
            "author_association": issue.association or self.world.association(repo, issue.user),
            "auto_merge": None,
            "active_lock_reason": None,
        }

    def pull(self, repo: Repo, issue: Issue) -> dict[str, Any]:
        pull = issue.pull
        assert pull is not None
        base = repo.git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
        files = repo.git.diff(base, pull.head_sha)
        return {
            **self.pull_simple(repo, issue),
            "merged": pull.merged,
            "mergeable": True,
            "rebaseable": True,
            "mergeable_state": "clean",
            "merged_by": None,
            "comments": len(issue.comments),
            "review_comments": len(pull.comments),
            "maintainer_can_modify": pull.maintainer_can_modify,
            "commits": len(repo.git.rev_list(pull.head_sha, "^" + pull.base_sha)),
            "additions": sum(f.additions for f in files),
            "deletions": sum(f.deletions for f in files),
            "changed_files": len(files),
        }

    def review(self, repo: Repo, issue: Issue, review: Review) -> dict[str, Any]:
        page = self.page(repo, f"/pull/{issue.number}#pullrequestreview-{review.id}")
        url = self.url(repo, f"/pulls/{issue.number}")
        body = {
            "id": review.id,
            "node_id": node_id("PRR", review.id),
            "user": self.user(review.user),
            "body": review.body,
            "state": review.state,
            "html_url": page,
            "pull_request_url": url,
            "author_association": self.world.association(repo, review.user),
            "_links": {"html": {"href": page}, "pull_request": {"href": url}},
            "commit_id": review.commit_id,
        }
        if review.submitted_at:
            body["submitted_at"] = review.submitted_at
        return body

    def review_comment(self, repo: Repo, issue: Issue, comment: ReviewComment) -> dict[str, Any]:
        url = self.url(repo, f"/pulls/comments/{comment.id}")
        pull = self.url(repo, f"/pulls/{issue.number}")
        page = self.page(repo, f"/pull/{issue.number}#discussion_r{comment.id}")
        body = {
            "url": url,
            "pull_request_review_id": comment.review_id,
            "id": comment.id,
            "node_id": node_id("PRRC", comment.id),
            "diff_hunk": comment.diff_hunk,
            "path": comment.path,
            "commit_id": comment.commit_id,
            "original_commit_id": comment.original_commit_id,
            "user": self.user(comment.user),
            "body": comment.body,
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "html_url": page,
            "pull_request_url": pull,
            "author_association": comment.association or self.world.association(repo, comment.user),
            "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull}},
            "reactions": self.reactions(repo, "review_comment", comment.id, url),
            "start_line": comment.start_line,
            "original_start_line": comment.start_line,
            "start_side": comment.start_side,
            "line": comment.line,
            "original_line": comment.line or 1,
            "side": comment.side,
            "original_position": comment.position or 1,
            "position": comment.position or 1,
            "subject_type": comment.subject_type,
        }
        if comment.in_reply_to:
            body["in_reply_to_id"] = comment.in_reply_to
        return body


def _quote(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
