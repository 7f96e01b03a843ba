package cloudapi

import "github.com/weirhq/weir/engine"

// recipientCodes are the platform's last word on one recipient: no retry and no
// other message would end differently soon.
var recipientCodes = []entry{
	{lo: 130403, asks: fail, title: "recipient is blocked by your business", advice: "unblock the person in WhatsApp Manager first"},
	{lo: 130472, asks: fail, title: "recipient is in a marketing experiment of Meta's"}, // resending is documented as useless
	{lo: 131021, asks: fail, title: "recipient is the sender itself", advice: "leave your own numbers out of the audience"},
	{lo: 131026, asks: engine.Answer{Action: engine.Fail, Spare: engine.SpareAbsent}, title: "not on WhatsApp, or client too old", advice: "leave the phone out of the next audience"},
	{lo: 131047, asks: fail, title: "outside the 24 hour window", advice: "only templates go out of the window: look whether the campaign's is one"},
	{lo: 131050, asks: engine.Answer{Action: engine.Fail, Spare: engine.SpareForGood}, title: "recipient stopped marketing messages from you", advice: "leave them out: they have to ask for it again"},
	{lo: 131062, asks: fail, title: "recipient id not supported for this message"},
	{lo: 137000, asks: fail, title: "recipient's identity has changed"},

	// True of this recipient, and, when it is said to one after the other, of the
	// whole audience: the wrong country, or Meta's number for tests.
	{lo: 130497, asks: suspect, title: "account may not message this country", advice: "leave the country out of the audience, or have the account allowed to message it"},
	{lo: 131030, asks: suspect, title: "recipient is not in the test number's list", advice: "add the phone to the test number's recipients, or use a real number"},
}

// templateCodes are about the template or its parameters.
var templateCodes = []entry{
	// These can be one row's bad value or the whole campaign's mistake, and
	// the code does not say which. The row fails; a few in a row stop the
	// campaign. 132008 is in libraries, not on Meta's page. 131014 is an older
	// code for a media link, which may be the row's own.
	{lo: 100, asks: suspect, title: "parameter invalid or not supported", advice: "compare the campaign's parameters with the template"},
	{lo: 131008, asks: suspect, title: "required parameter missing", advice: "a template parameter has no value: compare the campaign's parameters with the template"},
	{lo: 131009, asks: suspect, title: "parameter value invalid", advice: "look for line breaks, tabs or many spaces in the row's values"},
	{lo: 131014, asks: suspect, title: "media link could not be read", advice: "open the link without logging in; better, upload the media and use its id"},
	{lo: 132000, asks: suspect, title: "number of parameters does not match the template", advice: "compare the campaign's parameters with the template"},
	{lo: 132005, asks: suspect, title: "text too long once filled in", advice: "shorten the row's values"},
	{lo: 132008, asks: suspect, title: "template parameter value invalid", advice: "compare the campaign's parameters with the template"},
	{lo: 132012, asks: suspect, title: "parameter format does not match the template", advice: "compare the campaign's parameters with the template"},
	{lo: 132018, asks: suspect, title: "template could not be validated", advice: "compare the campaign's parameters with the template"},
	{lo: 135000, asks: suspect, title: "unknown problem with the parameters", advice: "compare the campaign's parameters with the template"},

	// The template cannot be sent by anyone: missing, refused, paused,
	// disabled. Every further row would fail. 132001 comes as HTTP 404.
	{lo: 131051, asks: stopWork, title: "message type not supported", advice: "compare the campaign's parameters with the template"}, // ours is the template's, the same for every row
	{lo: 132001, asks: stopWork, title: "template missing or not approved in this language", advice: "check name, language and approval in WhatsApp Manager"},
	{lo: 132007, asks: stopWork, title: "template violates a policy", advice: "correct the template in WhatsApp Manager and have it approved again"},
	{lo: 132015, asks: stopWork, title: "template paused for low quality, or held message dropped", advice: "look at the template's quality in WhatsApp Manager; a first pause ends after 3 hours, a second after 6, one for pacing must be lifted by hand"},
	{lo: 132016, asks: stopWork, title: "template disabled", advice: "make a new template, and a new campaign with it"},
	{lo: 132068, asks: stopWork, title: "flow blocked", advice: "correct the flow in WhatsApp Manager"},
	{lo: 132069, asks: stopWork, title: "flow throttled to ten messages an hour", advice: "correct the flow in WhatsApp Manager: its endpoint fails or is slow"}, // ten messages an hour: no pace for a campaign
	{lo: 134011, asks: stopWork, title: "payment terms not accepted", advice: "accept the terms in WhatsApp Manager"},

	// The account sends this category through another endpoint. Weir uses
	// /messages, where only 131063 is expected; all are settings, not rows.
	// 134101 passes in ten minutes, and until then every row would meet it: the
	// template's campaigns pause for so long. 134102 comes as HTTP 500; 134103 is
	// announced only.
	{lo: 131055, asks: stopWork, title: "method not allowed for this template", advice: "Meta may have changed the template's category: look in WhatsApp Manager"},
	{lo: 131063, asks: stopWork, title: "marketing templates are disabled on the Cloud API for this account", advice: "unset disable_marketing_messages_on_cloud_api on the business account"},
	{lo: 134100, asks: stopWork, title: "only marketing templates are allowed here", advice: "Meta may have changed the template's category: look in WhatsApp Manager"},
	{lo: 134101, asks: after(stopWork, syncWait), title: "template is still syncing", advice: "nothing to do: it goes on by itself"},
	{lo: 134102, asks: stopWork, title: "template not available for marketing messages", advice: "finish the onboarding to the marketing messages API"},
	{lo: 134103, asks: stopWork, title: "marketing messages API error", advice: "ask Meta's support what the account lacks for marketing messages"},
}

// elsewhere is the advice for a code that has no business with a send.
const elsewhere = "this code is not about sending: look it up on Meta's page of error codes"

// otherCodes belong to parts of the API that a campaign does not use: groups,
// calls, flows, inbound messages, template management. Should one answer a
// send, it is a refusal without a message id, so nothing was taken, and it says
// nothing about the token, number or template. One row fails and is suspect: a
// few in a row stop the campaign, and a human looks.
var otherCodes = []entry{
	{lo: 130501, asks: suspect, offPath: true, title: "message type not supported in groups", advice: elsewhere},
	{lo: 131020, asks: suspect, offPath: true, title: "group has one member", advice: elsewhere},
	{lo: 131041, asks: suspect, offPath: true, title: "group unknown", advice: elsewhere},
	{lo: 131044, asks: suspect, offPath: true, title: "payment problem of calls", advice: elsewhere},
	{lo: 131052, asks: suspect, offPath: true, title: "inbound media could not be downloaded", advice: elsewhere},
	{lo: 131059, asks: suspect, offPath: true, title: "paging cursor invalid", advice: elsewhere},
	{lo: 131060, asks: suspect, offPath: true, title: "inbound message not available", advice: elsewhere},
	{lo: 131201, hi: 131215, asks: suspect, offPath: true, title: "groups error", advice: elsewhere},
	{lo: 132021, asks: suspect, offPath: true, title: "template name exists already", advice: elsewhere},
	{lo: 138000, hi: 138018, asks: suspect, offPath: true, title: "calling error", advice: elsewhere},
	{lo: 139000, hi: 139004, asks: suspect, offPath: true, title: "flow management error", advice: elsewhere},
	{lo: 139100, hi: 139103, asks: suspect, offPath: true, title: "block list error", advice: elsewhere},
	{lo: 139200, asks: suspect, offPath: true, title: "direct send access blocked", advice: elsewhere},
	{lo: 147001, hi: 147005, asks: suspect, offPath: true, title: "business username error", advice: elsewhere},
	{lo: 200005, hi: 200007, asks: suspect, offPath: true, title: "template insights error", advice: elsewhere},
	{lo: 1752041, asks: suspect, offPath: true, title: "onboarding requested twice", advice: elsewhere}, // not a message sent twice
	{lo: 2388019, asks: suspect, offPath: true, title: "too many templates", advice: elsewhere},
	{lo: 2388039, asks: suspect, offPath: true, title: "template cannot change its status now", advice: elsewhere},
	{lo: 2388040, asks: suspect, offPath: true, title: "template field too long", advice: elsewhere},
	{lo: 2388047, asks: suspect, offPath: true, title: "template header format", advice: elsewhere},
	{lo: 2388072, asks: suspect, offPath: true, title: "template body format", advice: elsewhere},
	{lo: 2388073, asks: suspect, offPath: true, title: "template footer format", advice: elsewhere},
	{lo: 2388293, asks: suspect, offPath: true, title: "template has too many variables for its length", advice: elsewhere},
	{lo: 2388299, asks: suspect, offPath: true, title: "template starts or ends with a variable", advice: elsewhere},
	{lo: 2593107, asks: suspect, offPath: true, title: "synchronisation asked for too often", advice: elsewhere},
	{lo: 2593108, asks: suspect, offPath: true, title: "synchronisation asked for too late", advice: elsewhere},
}
