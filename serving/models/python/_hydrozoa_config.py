"""Configurations of models, as models see and complete them."""

import json


def _named(model_config, kind, name):
    return next((tensor for tensor in model_config.get(kind, ()) if tensor["name"] == name), None)


def get_input_config_by_name(model_config, name):
    """The configuration of this input; None if it has no such input."""
    return _named(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    """The configuration of this output; None if it has no such output."""
    return _named(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config):
    """Whether a request of the model may have any number of responses."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


class ModelConfig:
    """A configuration that a model may complete, in auto_complete_config."""

    def __init__(self, model_config):
        self._model_config = json.loads(model_config)

    def as_dict(self):
        return self._model_config

    def set_max_batch_size(self, max_batch_size):
        known = self._model_config["max_batch_size"]
        if known > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {known}, but in auto-complete-config function for model "
                f"'{self._model_config['name']}' specified max_batch_size {max_batch_size}"
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self):
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in self._model_config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{scheduler}', but auto-complete-config function for "
                    f"model '{self._model_config['name']}' tries to set scheduling_choice as 'dynamic_batching'"
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input):
        self._add("input", input, ("name", "data_type", "dims", "optional"))

    def add_output(self, output):
        self._add("output", output, ("name", "data_type", "dims"))

    def set_model_transaction_policy(self, transaction_policy_dict):
        name = self._model_config["name"]
        if any(key != "decoupled" for key in transaction_policy_dict):
            raise ValueError(
                f"model transaction property in auto-complete-config function for model '{name}' contains property other "
                "than 'decoupled'."
            )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        wanted = transaction_policy_dict.get("decoupled")
        if wanted is None:
            return
        if policy.get("decoupled", wanted) != wanted:
            raise ValueError(
                f"trying to change decoupled property in auto-complete-config for model '{name}', which is already set to "
                f"'{policy['decoupled']}'."
            )
        policy["decoupled"] = wanted

    def _add(self, kind, tensor, properties):
        model = self._model_config["name"]
        where = f"in auto-complete-config function for model '{model}'"
        if any(key not in properties for key in tensor):
            listed = ", ".join(f"'{key}'" for key in properties[:-1]) + f" and '{properties[-1]}'"
            raise ValueError(f"{kind} '{tensor.get('name')}' {where} contains property other than {listed}.")
        if "name" not in tensor:
            raise ValueError(f"{kind} {where} is missing 'name' property.")
        for needed in ("data_type", "dims"):
            if needed not in tensor:
                raise ValueError(f"{kind} '{tensor['name']}' {where} is missing '{needed}' property.")
        known = _named(self._model_config, kind, tensor["name"])
        if known is None:
            self._model_config[kind].append(tensor)
            return
        self._agree(kind, known, tensor)
        known.update(tensor)

    def _agree(self, kind, known, tensor):
        model, name = self._model_config["name"], tensor["name"]
        if known["data_type"] not in ("TYPE_INVALID", tensor["data_type"]):
            raise ValueError(
                f"unable to load model '{model}', configuration expects datatype {known['data_type']} for {kind} '{name}', "
                f"model provides {tensor['data_type']}"
            )
        for key in ("dims", "optional"):
            if known.get(key) and key in tensor and known[key] != tensor[key]:
                raise ValueError(
                    f"model '{model}', tensor '{name}': the model expects {key} {tensor[key]} but the model configuration "
                    f"specifies {key} {known[key]}"
                )
