"""The console's own sentences in the reader's language: problems, switches, and what schedulers say.

Whoever calls names the language in Accept-Language. Problems are raised in English and found again by that (see
`diagnose.texts.sentences`), so that nobody who raises one has to think of languages; a test walks through everything that
is raised to see that it is here. What is in no table is somebody else's (an API server's, a kubelet's) and is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.datastructures import Headers

from numaware.diagnose.evidence import fit_error
from numaware.diagnose.finding import Message
from numaware.diagnose.texts import Lang, label, say
from numaware.diagnose.texts.sentences import Sentences

_LONGEST = 200

# `{}` is whatever stands there: a name, a number, or a sentence that is looked up in its turn.
CHINESE: Mapping[str, str] = {
    # the door
    "this console does not answer to that Host": "此控制台不应答这个 Host",
    "open it by its own address": "请用它自己的地址打开",
    "too many calls": "请求过于频繁",
    "too many tokens": "尝试的令牌过多",
    "too many readers listen already": "实时订阅者已达上限",
    "Content-Length is not a number": "Content-Length 不是数字",
    "the body is larger than {} MiB": "请求体超过 {} MiB",
    "the body did not come in time": "请求体没有及时到达",
    "the body has to be application/json": "请求体必须是 application/json",
    "another site may not change anything here": "其他站点不能更改这里的任何内容",
    "nothing here has so long a path": "这里没有这么长的路径",
    "a token is needed": "需要令牌",
    "the cluster does not know this token": "集群不认识这个令牌",
    "send it as Authorization: Bearer …": "请用 Authorization: Bearer … 发送",
    "the cluster cannot be asked who may do this": "无法向集群询问谁有权限",
    "try again": "请重试",
    "{} may not {}": "{} 没有权限：{}",
    "a ClusterRole with that verb in nonResourceURLs gives leave": "在 ClusterRole 的 nonResourceURLs 中给出这个动词即可授权",
    "something went wrong here; the log says what": "服务出错了，详情见日志",
    "the page is not built": "页面尚未构建",
    "run make web": "请运行 make web",
    # questions
    "query: {}": "查询参数：{}",
    "body: {}": "请求体：{}",
    "a query parameter is there twice": "查询参数重复",
    "there is no query parameter {}": "没有查询参数 {}",
    "there is no node {}": "没有节点 {}",
    "there is no pod {}": "没有 Pod {}",
    "there is no pool {}": "没有资源池 {}",
    "there is no switch {}": "没有开关 {}",
    "there is no comparison {}": "没有比较 {}",
    "the kubelet of {} would not start with it": "{} 的 kubelet 用它无法启动",
    "{} is beyond any machine": "{} 超过任何机器",
    "such as 8, 500m or 96Gi": "例如 8、500m 或 96Gi",
    "every scheduler once, each a known one": "每个调度器只能出现一次，且必须是已知的",
    "too many comparisons are waiting": "等待中的比较过多",
    "try again in a moment": "请稍后重试",
    "the process that played it ended before it was done": "运行它的进程提前结束了",
    "holds more than {} files": "包含的文件超过 {} 个",
    "holds more than {} MiB": "内容超过 {} MiB",
    "is a broken archive: {}": "压缩包已损坏：{}",
    # the past
    "nothing is kept of that time": "没有保存那个时刻的数据",
    "nothing is kept of that time; kept {}": "没有保存那个时刻的数据；保存的是 {}",
    "nothing is kept yet": "还没有保存任何数据",
    "what is kept of that time cannot be read": "那个时刻的数据无法读取",
    "start the console with --record FILE to look back": "启动控制台时加上 --record FILE 才能回看",
    "what is over cannot be changed": "过去的状态不能更改",
    "from {} to {}": "{} 至 {}",
    "what is kept in it is of a later time than now": "其中保存的时间晚于现在",
    "database or disk is full": "磁盘已满",
    "disk I/O error": "磁盘读写错误",
    "No space left on device": "磁盘已满",
    "Permission denied": "没有权限",
    "Read-only file system": "文件系统只读",
    "attempt to write a readonly database": "文件只读",
    "{}: is not a history of numaware (it was left as it is; give a new file)": "{}：不是 numaware 的历史文件（未改动；请指定新文件）",
    "{}: is damaged (put it aside, and give a new file)": "{}：已损坏（请移走它并指定新文件）",
    "{}: another console is writing to it (give every console a file of its own)": "{}：另一个控制台正在写入（每个控制台需要各自的文件）",
    # switches
    "this console only looks at the cluster; nothing is switched from here": "此控制台只查看集群，不在这里切换",
    "kubelets are configured on their nodes (prefer-closest-numa-nodes); nothing in this cluster edits them": (
        "kubelet 在各自的节点上配置（prefer-closest-numa-nodes），这个集群里没有组件会修改它们"
    ),
    "the lab's kubelets are configured in its file; no agent edits them": (
        "演示环境的 kubelet 由它的文件配置，没有代理会修改它们"
    ),
    "no agent with its runtime plug-in runs in the lab": "演示环境里没有运行带运行时插件的代理",
    "it has not been read yet": "尚未读取",
    "it is being moved already": "正在切换中",
    "the API server says: {}": "API server 的答复：{}",
    "the scheduler {} ({}); {}": "调度器{}（{}）；{}",
    "did not come up": "没有启动",
    "could not be restarted": "无法重启",
    "after {} s {} of {} pods are ready": "{} 秒后 {} / {} 个 Pod 就绪",
    "{}, but the scheduler is not ready: {}": "{}，但调度器没有就绪：{}",
    "{} is paused, so it would not restart": "{} 已暂停，不会重启",
    "{} cannot be read: {}": "无法读取 {}：{}",
    "{} cannot be switched without changing more": "切换 {} 会牵动其他内容",
    "edit it by hand": "请手工修改",
    "is empty": "内容为空",
    "is longer than {} KiB": "超过 {} KiB",
    "has aliases, by which one line stands in several places": "使用了别名，一行会出现在多处",
    "is broken YAML: {}": "不是合法的 YAML：{}",
    "too many brackets in one another": "括号嵌套过深",
    "{} is not a list": "{} 不是列表",
    "{} is not a mapping": "{} 不是映射",
    "{} is there twice or merges": "{} 重复或含有合并",
    "has no tier with plugins": "没有带插件的层级",
    "Volcano needs some to schedule anything": "Volcano 没有插件就无法调度",
    "somebody else keeps writing {}": "有别的写入者不断修改 {}",
    "it was put back as it was": "已恢复原状",
    "somebody else has changed the configuration since, so that was left as it is": (
        "其间配置又被他人改过，因此保持不动"
    ),
    "putting it back did not succeed: {}": "恢复没有成功：{}",
    "the account of this console may not read {}": "此控制台的账号没有读取 {} 的权限",
    "there is no ConfigMap {}: Volcano's scheduler is not installed": "没有 ConfigMap {}：Volcano 调度器没有安装",
    "there is no Oenuma {}: openFuyao's runtime plug-in is not installed": "没有 Oenuma {}：openFuyao 的运行时插件没有安装",
}


def language_of(headers: Headers) -> Lang:
    """The language that the caller would rather read; English unless it asks for Chinese first."""
    wishes = []
    for wish in headers.get("accept-language", "")[:_LONGEST].split(","):
        name, _, weight = wish.partition(";")
        number = re.fullmatch(r"\s*q=([01](?:\.\d{0,3})?)\s*", weight)
        wishes.append((-(float(number[1]) if number else 1.0), name.strip().lower()))
    for less, name in sorted(wishes, key=lambda one: one[0]):
        if less < 0 and name.partition("-")[0] in ("en", "zh"):
            return "zh" if name.startswith("zh") else "en"
    return "en"


def retold(text: str, lang: Lang) -> str:
    """The sentence in a language; `source: sentence` keeps its source."""
    return text if lang == "en" or not text else _chinese(text)


def _chinese(text: str) -> str:
    found = _SENTENCES.told(text, _chinese)
    if found:
        return found
    listed = [_SENTENCES.told(part, _chinese) for part in text.split(", ")]
    if all(listed):
        return "、".join(listed)
    said = fit_error.read(text)
    if said is not None:
        return say(said, "zh")
    told = label(Message("said", {"text": text}), "zh")
    if told != text:
        return told
    source, colon, rest = text.partition(": ")
    told = _chinese(rest) if colon else rest
    return f"{source}：{told}" if told != rest else text


_SENTENCES = Sentences(CHINESE)
